// SPDX-License-Identifier: MIT
/*
 * A scope that requests a snapshot when it took too long.
 *
 *	c++ -o scope scope.cc $(pkg-config --cflags --libs libcsight)
 *	./scope
 */
#include <chrono>
#include <csight.h>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <thread>
#include <unistd.h>

namespace recorder
{

struct closer {
	void operator()(struct csight *c) const
	{
		csight_close(c);
	}
};
using handle = std::unique_ptr<struct csight, closer>;

inline handle open(const char *socket = nullptr)
{
	struct csight *c = nullptr;

	return handle(csight_open(socket, &c) < 0 ? nullptr : c);
}

/* Any thread may have scopes of one handle. */
class scope
{
      public:
	scope(const handle &c, std::chrono::milliseconds limit, std::chrono::milliseconds every)
	    : c(c.get()), limit(limit), every(every), begin(std::chrono::steady_clock::now())
	{
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;
	~scope()
	{
		struct csight_async_options o = {};

		if (!c || std::chrono::steady_clock::now() - begin < limit)
			return;
		o.size = sizeof(o);
		o.every_ms = static_cast<uint64_t>(every.count());
		csight_snapshot_async(c, getpid(), &o, nullptr);
	}

      private:
	struct csight *c;
	std::chrono::milliseconds limit, every;
	std::chrono::steady_clock::time_point begin;
};

} // namespace recorder

static void handle_request(const recorder::handle &c, int ms)
{
	recorder::scope slow(c, std::chrono::milliseconds(50), std::chrono::seconds(10));

	std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

int main()
{
	recorder::handle c = recorder::open();
	struct csight_counts counts = {};

	for (int ms : { 0, 1, 80, 0, 90 })
		handle_request(c, ms);
	counts.size = sizeof(counts);
	if (!c || csight_async_counts(c.get(), &counts) < 0)
		return 1;
	std::printf("%d snapshots requested, %d refused as too many, %d without a daemon\n",
		    static_cast<int>(counts.sent), static_cast<int>(counts.limited), static_cast<int>(counts.failed));
	return 0;
}
