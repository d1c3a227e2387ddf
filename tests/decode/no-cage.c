/* SPDX-License-Identifier: MIT */
/* Takes the place of daemon/decode/cage.c in planted-loose: restricts nothing. */
#include "daemon/decode/cage.h"

int cage_lock(unsigned *ret_parts)
{
	*ret_parts = 0;
	return 0;
}

json_object *cage_json(unsigned parts)
{
	return json_object_new_array();
}
