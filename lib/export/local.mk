# lib/export
