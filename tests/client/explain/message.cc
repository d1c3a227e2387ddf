/* SPDX-License-Identifier: MIT */
/* A service in another thread answers requests; one answer takes 40 ms. */
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "planted.h"

static std::mutex lock;
static std::condition_variable changed;
static uint32_t question, answer;

static void serve()
{
	std::unique_lock<std::mutex> guard(lock);

	for (uint32_t i = 1; i <= 50; i++) {
		changed.wait(guard, [&] { return question == i; });
		if (i == 30)
			std::this_thread::sleep_for(std::chrono::milliseconds(40));
		answer = i;
		changed.notify_all();
	}
}

static apart void await_answer(uint32_t n)
{
	std::unique_lock<std::mutex> guard(lock);

	changed.wait(guard, [&] { return answer == n; });
}

static apart void post(uint32_t n)
{
	std::unique_lock<std::mutex> guard(lock);

	question = n;
	changed.notify_all();
}

static apart void call_service(uint32_t n)
{
	used(compute(n, 200));
	post(n);
	await_answer(n);
}

int main()
{
	std::thread service(serve);

	planted("call_service", "await_answer");
	for (uint32_t i = 1; i <= 50; i++)
		call_service(i);
	service.join();
	return 0;
}
