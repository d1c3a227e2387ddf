# lib/emu
