"""Episodes as data: reading and writing the file formats of other projects."""
