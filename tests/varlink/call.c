/* SPDX-License-Identifier: MIT */
/* call SOCKET METHOD [PARAMETERS]: makes one call; prints the error name or the parameters of the reply. */
#include "config.h"

#include <string.h>

#include "lib/varlink/varlink.h"

int main(int argc, char **argv)
{
	struct varlink_reply reply = { 0 };
	struct varlink_stream *s;
	json_object *parameters = NULL;
	int rc;

	if (argc < 3 || (argc > 3 && json_parse(argv[3], strlen(argv[3]), &parameters) < 0))
		return 2;
	rc = varlink_connect(argv[1], -1, &s);
	if (rc == 0) {
		rc = varlink_send_call(s, argv[2], parameters, false);
		if (rc == 0)
			rc = varlink_receive(s, 120000, &reply, NULL);
		varlink_stream_free(s);
	}
	json_object_put(parameters);
	if (rc < 0) {
		printf("%s\n", strerror(-rc));
		return 1;
	}
	printf("%s\n",
	       reply.error ? reply.error : json_object_to_json_string_ext(reply.parameters, JSON_C_TO_STRING_PLAIN));
	rc = reply.error != NULL;
	varlink_reply_done(&reply);
	return rc;
}
