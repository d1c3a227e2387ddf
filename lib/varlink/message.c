/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/varlink/varlink.h"

/* ASCII only, since Varlink names do not depend on the locale. */
static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_alnum(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9');
}

/* [A-Za-z]([-]*[A-Za-z0-9])*(\.[A-Za-z0-9]([-]*[A-Za-z0-9])*)+, in the size bytes at text */
static bool is_interface(const char *text, size_t size)
{
	size_t dots = 0;

	if (size == 0 || !is_letter(text[0]) || !is_alnum(text[size - 1]))
		return false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '.') {
			/* A component neither begins nor ends with a dash, and is not empty. */
			if (!is_alnum(text[i - 1]) || !is_alnum(text[i + 1]))
				return false;
			dots++;
		} else if (!is_alnum(text[i]) && text[i] != '-') {
			return false;
		}
	}
	return dots > 0;
}

/* interface.Name: the qualified name of a method or error */
static bool is_member(const char *text)
{
	const char *dot = strrchr(text, '.');

	if (!dot || !is_interface(text, (size_t)(dot - text)) || dot[1] < 'A' || dot[1] > 'Z')
		return false;
	for (const char *c = dot + 1; *c; c++)
		if (!is_alnum(*c))
			return false;
	return true;
}

static int check_keys(json_object *root, const char *const *keys, size_t n_keys)
{
	if (!json_object_is_type(root, json_type_object))
		return -EBADMSG;
	json_object_object_foreach (root, key, value) {
		size_t i = 0;

		(void)value;
		while (i < n_keys && strcmp(keys[i], key) != 0)
			i++;
		if (i == n_keys)
			return -EBADMSG;
	}
	return 0;
}

/* Absent and null parameters are replaced by an empty object, which root owns. */
static int get_parameters(json_object *root, json_object **ret)
{
	int rc = json_get(root, "parameters", json_type_object, ret);

	if (rc != -ENOENT)
		return rc < 0 ? -EBADMSG : 0;
	*ret = json_object_new_object();
	if (!*ret)
		return -ENOMEM;
	json_add(root, "parameters", *ret);
	return json_is_incomplete(root) ? -ENOMEM : 0;
}

static int get_flag(json_object *root, const char *key, bool *ret)
{
	int rc = json_get_bool(root, key, ret);

	return rc == 0 || rc == -ENOENT ? 0 : -EBADMSG;
}

int varlink_call_parse(const char *text, size_t size, struct varlink_call *ret)
{
	static const char *const keys[] = { "method", "parameters", "oneway", "more", "upgrade" };
	_cleanup_json_ json_object *root = NULL;
	struct varlink_call call = { 0 };
	int rc;

	rc = json_parse(text, size, &root);
	if (rc < 0)
		return rc;
	rc = check_keys(root, keys, ELEMENTS(keys));
	if (rc < 0)
		return rc;
	if (json_get_str(root, "method", &call.method) < 0 || !is_member(call.method))
		return -EBADMSG;
	if (get_flag(root, "oneway", &call.oneway) < 0 || get_flag(root, "more", &call.more) < 0 ||
	    get_flag(root, "upgrade", &call.upgrade) < 0 || call.oneway + call.more + call.upgrade > 1)
		return -EBADMSG;
	rc = get_parameters(root, &call.parameters);
	if (rc < 0)
		return rc;
	call.root = TAKE_PTR(root);
	*ret = call;
	return 0;
}

int varlink_reply_parse(const char *text, size_t size, struct varlink_reply *ret)
{
	static const char *const keys[] = { "parameters", "continues", "error" };
	_cleanup_json_ json_object *root = NULL;
	struct varlink_reply reply = { 0 };
	int rc;

	rc = json_parse(text, size, &root);
	if (rc < 0)
		return rc;
	rc = check_keys(root, keys, ELEMENTS(keys));
	if (rc < 0)
		return rc;
	rc = json_get_str(root, "error", &reply.error);
	if (rc < 0 ? rc != -ENOENT : !is_member(reply.error))
		return -EBADMSG;
	/* An error is always the last reply. */
	if (get_flag(root, "continues", &reply.continues) < 0 || (reply.error && reply.continues))
		return -EBADMSG;
	rc = get_parameters(root, &reply.parameters);
	if (rc < 0)
		return rc;
	reply.root = TAKE_PTR(root);
	*ret = reply;
	return 0;
}

void varlink_call_done(struct varlink_call *call)
{
	json_object_put(call->root);
	*call = (struct varlink_call){ 0 };
}

void varlink_reply_done(struct varlink_reply *reply)
{
	json_object_put(reply->root);
	*reply = (struct varlink_reply){ 0 };
}

static void put_message(struct buf *b, const char *key, const char *name, json_object *parameters, const char *flag)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	_cleanup_free_ char *text = NULL;

	json_add_str(o, key, name);
	if (parameters)
		json_add(o, "parameters", json_object_get(parameters));
	if (flag)
		json_add_bool(o, flag, true);
	text = json_text(o, JSON_PLAIN);
	if (text)
		buf_add(b, text, strlen(text) + 1);
	else if (!b->error)
		b->error = -ENOMEM;
}

void varlink_put_call(struct buf *b, const char *method, json_object *parameters, bool more)
{
	put_message(b, "method", method, parameters, more ? "more" : NULL);
}

void varlink_put_reply(struct buf *b, json_object *parameters, bool continues)
{
	put_message(b, "error", NULL, parameters, continues ? "continues" : NULL);
}

void varlink_put_error(struct buf *b, const char *error, json_object *parameters)
{
	put_message(b, "error", error, parameters, NULL);
}
