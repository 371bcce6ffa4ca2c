"""Tool tasks in small worlds: lists, tables, weather, films and papers."""
