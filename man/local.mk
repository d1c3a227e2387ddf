# SPDX-License-Identifier: MIT
# man
dist_man_MANS = man/csight.1 man/csightd.8 man/csight-decode.8 man/csightd.conf.5 man/csight-formats.5 man/libcsight.3 man/csight.7 $(libcsight_pages)
# One page for each function
libcsight_pages = \
	man/csight_arm.3 man/csight_arm_async.3 man/csight_async_counts.3 man/csight_call_async.3 man/csight_cancel.3 \
	man/csight_close.3 man/csight_connect.3 man/csight_count.3 man/csight_disarm.3 man/csight_error.3 \
	man/csight_error_name.3 man/csight_events.3 man/csight_fd.3 man/csight_field.3 man/csight_flag.3 \
	man/csight_get.3 man/csight_item.3 man/csight_json.3 man/csight_keep.3 man/csight_list.3 man/csight_number.3 \
	man/csight_object_free.3 man/csight_object_ref.3 man/csight_open.3 man/csight_open_file.3 \
	man/csight_open_file_async.3 man/csight_process.3 man/csight_reload.3 man/csight_remove.3 \
	man/csight_set_timeout.3 man/csight_snapshot.3 man/csight_snapshot_async.3 \
	man/csight_snapshot_with.3 man/csight_socket.3 \
	man/csight_status.3 man/csight_targets.3 man/csight_text.3 man/csight_timeout.3 man/csight_version.3 \
	man/csight_wait.3 man/csight_wait_async.3
