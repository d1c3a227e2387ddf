/* SPDX-License-Identifier: MIT */
/* csight-decode with an OpenCSD that crashes when a block of trace contains certain bytes. */
#include <string.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "daemon/decode/server.h"
#include "lib/base/util.h"

ocsd_datapath_resp_t __real_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *ret_used);
ocsd_datapath_resp_t __wrap_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *ret_used);

ocsd_datapath_resp_t __wrap_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *ret_used)
{
	static const char bytes[] = "crash here";

	if (data && memmem(data, size, bytes, sizeof(bytes) - 1))
		__builtin_trap();
	return __real_ocsd_dt_process_data(tree, op, index, size, data, ret_used);
}

int main(void)
{
	return server_run() < 0;
}
