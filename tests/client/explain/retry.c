/* SPDX-License-Identifier: MIT */
/* One message is tried 60 times, the others once. */
#include "planted.h"

static apart int try_send(uint32_t message, unsigned attempt)
{
	return compute(message, 150) && (message != 77 || attempt == 59);
}

static apart uint32_t encode(uint32_t message)
{
	return compute(message, 400);
}

static apart void send_message(uint32_t message)
{
	used(encode(message));
	for (unsigned attempt = 0; !try_send(message, attempt);)
		attempt++;
}

int main(void)
{
	planted("send_message", "try_send");
	for (uint32_t i = 0; i < 100; i++)
		send_message(i + 1);
	return 0;
}
