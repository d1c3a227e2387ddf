# lib/csight
