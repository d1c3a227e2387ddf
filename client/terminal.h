/* SPDX-License-Identifier: MIT */
/* The terminal that csight prints to: its width and its characters, and the pager in front of it. */
#ifndef CSIGHT_CLIENT_TERMINAL_H
#define CSIGHT_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Sets the locale. main() calls it first. */
void terminal_begin(void);

/* True if the locale has UTF-8. */
bool terminal_has_utf8(void);

/* True if f is a terminal, or standard output that a pager shows. */
bool terminal_is(FILE *f);

/* Returns the columns of standard output: COLUMNS, or those of the terminal; 0: no limit, since it is none. */
size_t terminal_width(void);

/* Prints text in lines of the terminal's width at most, as far as its words allow; later lines are indented by two. */
void terminal_print_wrapped(FILE *f, const char *text);

/*
 * Starts the pager if standard output is a terminal: CSIGHT_PAGER, PAGER, less or more. From then on standard output,
 * and standard error if it is a terminal, are its input, and SIGINT, SIGQUIT and SIGPIPE are ignored.
 */
void terminal_page(void);

/* True once a pager was started. */
bool terminal_is_paged(void);

/* Ends the input of the pager, and waits until the user leaves it. */
void terminal_end(void);

#endif
