"""WebShop: searching and buying in a shop, by the rules and in the data format of the original."""
