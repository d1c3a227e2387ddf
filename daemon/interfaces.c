/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/idl.h"
#include "daemon/interfaces.h"

/* Replies with an error that has one parameter. */
static void fail_text(struct call *c, const char *error, const char *key, const char *text)
{
	json_object *o = json_object_new_object();

	json_add_str(o, key, text);
	call_error(c, error, o);
}

void interfaces_list(struct call *c)
{
	json_object *o = json_object_new_object(), *list = json_object_new_array();

	json_add_str(o, "vendor", "csight");
	json_add_str(o, "product", "csightd");
	json_add_str(o, "version", PACKAGE_VERSION);
	json_add_str(o, "url", "");
	json_array_add_bytes(list, "org.varlink.service");
	json_array_add_bytes(list, "org.csight");
	json_add(o, "interfaces", list);
	call_reply(c, o);
}

void interfaces_describe(struct call *c)
{
	const char *name, *text = NULL;
	json_object *o;

	if (json_get_str(c->parameters, "interface", &name) < 0) {
		call_invalid(c, "interface");
		return;
	}
	if (strcmp(name, "org.csight") == 0)
		text = idl_org_csight;
	else if (strcmp(name, "org.varlink.service") == 0)
		text = idl_org_varlink_service;
	if (!text) {
		fail_text(c, VARLINK_INTERFACE_NOT_FOUND, "interface", name);
		return;
	}
	o = json_object_new_object();
	json_add_str(o, "description", text);
	call_reply(c, o);
}

void interfaces_lack(struct call *c, const char *name)
{
	static const char *const interfaces[] = { "org.csight.", "org.varlink.service." };
	_cleanup_free_ char *interface = NULL;

	for (size_t n = 0; n < ELEMENTS(interfaces); n++)
		if (strncmp(name, interfaces[n], strlen(interfaces[n])) == 0 &&
		    !strchr(name + strlen(interfaces[n]), '.')) {
			fail_text(c, VARLINK_METHOD_NOT_FOUND, "method", name);
			return;
		}
	interface = strndup(name, (size_t)(strrchr(name, '.') - name));
	fail_text(c, VARLINK_INTERFACE_NOT_FOUND, "interface", interface);
}
