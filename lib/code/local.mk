# lib/code
