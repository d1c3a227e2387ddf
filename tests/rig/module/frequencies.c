// SPDX-License-Identifier: MIT OR GPL-2.0
/* CPUs whose frequency can be set. It has no effect; the kernel says when it changes. */
#include <linux/cpufreq.h>
#include <linux/module.h>

#include "rig.h"

static bool frequencies;
module_param(frequencies, bool, 0444);

static struct cpufreq_frequency_table table[] = {
	{ .frequency = 600000 },
	{ .frequency = 1200000 },
	{ .frequency = 2400000 },
	{ .frequency = CPUFREQ_TABLE_END },
};
static unsigned int current_khz[RIG_CPUS];

static int init_policy(struct cpufreq_policy *policy)
{
	policy->freq_table = table;
	policy->cur = current_khz[policy->cpu] = table[0].frequency;
	policy->cpuinfo.transition_latency = 1000;
	return 0;
}

static int set_frequency(struct cpufreq_policy *policy, unsigned int index)
{
	current_khz[policy->cpu] = table[index].frequency;
	return 0;
}

static unsigned int get_frequency(unsigned int cpu)
{
	return current_khz[cpu];
}

static struct cpufreq_driver driver = {
	.name = "csight-rig",
	.init = init_policy,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = set_frequency,
	.get = get_frequency,
};

int rig_frequencies_register(void)
{
	return frequencies ? cpufreq_register_driver(&driver) : 0;
}

void rig_frequencies_unregister(void)
{
	if (frequencies)
		cpufreq_unregister_driver(&driver);
}
