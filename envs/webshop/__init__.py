"""WebShop: searching and buying in a shop, by the rules and with the data format of the original."""
