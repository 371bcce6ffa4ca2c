"""Z-machine story files, run by Jericho (included in the extra `textworld`)."""
