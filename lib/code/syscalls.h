/* SPDX-License-Identifier: MIT */
/* The numbers of system calls on arm64, in X(number, name). */
#ifndef CSIGHT_CODE_SYSCALLS_H
#define CSIGHT_CODE_SYSCALLS_H

/* clang-format off */
#define SYSCALLS(X) \
	X(0, io_setup) X(1, io_destroy) X(2, io_submit) X(3, io_cancel) X(4, io_getevents) X(5, setxattr) \
	X(6, lsetxattr) X(7, fsetxattr) X(8, getxattr) X(9, lgetxattr) X(10, fgetxattr) X(11, listxattr) \
	X(12, llistxattr) X(13, flistxattr) X(14, removexattr) X(15, lremovexattr) X(16, fremovexattr) \
	X(17, getcwd) X(18, lookup_dcookie) X(19, eventfd2) X(20, epoll_create1) X(21, epoll_ctl) \
	X(22, epoll_pwait) X(23, dup) X(24, dup3) X(25, fcntl) X(26, inotify_init1) X(27, inotify_add_watch) \
	X(28, inotify_rm_watch) X(29, ioctl) X(30, ioprio_set) X(31, ioprio_get) X(32, flock) X(33, mknodat) \
	X(34, mkdirat) X(35, unlinkat) X(36, symlinkat) X(37, linkat) X(38, renameat) X(39, umount2) \
	X(40, mount) X(41, pivot_root) X(42, nfsservctl) X(43, statfs) X(44, fstatfs) X(45, truncate) \
	X(46, ftruncate) X(47, fallocate) X(48, faccessat) X(49, chdir) X(50, fchdir) X(51, chroot) \
	X(52, fchmod) X(53, fchmodat) X(54, fchownat) X(55, fchown) X(56, openat) X(57, close) X(58, vhangup) \
	X(59, pipe2) X(60, quotactl) X(61, getdents64) X(62, lseek) X(63, read) X(64, write) X(65, readv) \
	X(66, writev) X(67, pread64) X(68, pwrite64) X(69, preadv) X(70, pwritev) X(71, sendfile) \
	X(72, pselect6) X(73, ppoll) X(74, signalfd4) X(75, vmsplice) X(76, splice) X(77, tee) \
	X(78, readlinkat) X(79, newfstatat) X(80, fstat) X(81, sync) X(82, fsync) X(83, fdatasync) \
	X(84, sync_file_range) X(85, timerfd_create) X(86, timerfd_settime) X(87, timerfd_gettime) \
	X(88, utimensat) X(89, acct) X(90, capget) X(91, capset) X(92, personality) X(93, exit) \
	X(94, exit_group) X(95, waitid) X(96, set_tid_address) X(97, unshare) X(98, futex) \
	X(99, set_robust_list) X(100, get_robust_list) X(101, nanosleep) X(102, getitimer) X(103, setitimer) \
	X(104, kexec_load) X(105, init_module) X(106, delete_module) X(107, timer_create) \
	X(108, timer_gettime) X(109, timer_getoverrun) X(110, timer_settime) X(111, timer_delete) \
	X(112, clock_settime) X(113, clock_gettime) X(114, clock_getres) X(115, clock_nanosleep) \
	X(116, syslog) X(117, ptrace) X(118, sched_setparam) X(119, sched_setscheduler) \
	X(120, sched_getscheduler) X(121, sched_getparam) X(122, sched_setaffinity) X(123, sched_getaffinity) \
	X(124, sched_yield) X(125, sched_get_priority_max) X(126, sched_get_priority_min) \
	X(127, sched_rr_get_interval) X(128, restart_syscall) X(129, kill) X(130, tkill) X(131, tgkill) \
	X(132, sigaltstack) X(133, rt_sigsuspend) X(134, rt_sigaction) X(135, rt_sigprocmask) \
	X(136, rt_sigpending) X(137, rt_sigtimedwait) X(138, rt_sigqueueinfo) X(139, rt_sigreturn) \
	X(140, setpriority) X(141, getpriority) X(142, reboot) X(143, setregid) X(144, setgid) \
	X(145, setreuid) X(146, setuid) X(147, setresuid) X(148, getresuid) X(149, setresgid) \
	X(150, getresgid) X(151, setfsuid) X(152, setfsgid) X(153, times) X(154, setpgid) X(155, getpgid) \
	X(156, getsid) X(157, setsid) X(158, getgroups) X(159, setgroups) X(160, uname) X(161, sethostname) \
	X(162, setdomainname) X(163, getrlimit) X(164, setrlimit) X(165, getrusage) X(166, umask) \
	X(167, prctl) X(168, getcpu) X(169, gettimeofday) X(170, settimeofday) X(171, adjtimex) X(172, getpid) \
	X(173, getppid) X(174, getuid) X(175, geteuid) X(176, getgid) X(177, getegid) X(178, gettid) \
	X(179, sysinfo) X(180, mq_open) X(181, mq_unlink) X(182, mq_timedsend) X(183, mq_timedreceive) \
	X(184, mq_notify) X(185, mq_getsetattr) X(186, msgget) X(187, msgctl) X(188, msgrcv) X(189, msgsnd) \
	X(190, semget) X(191, semctl) X(192, semtimedop) X(193, semop) X(194, shmget) X(195, shmctl) \
	X(196, shmat) X(197, shmdt) X(198, socket) X(199, socketpair) X(200, bind) X(201, listen) \
	X(202, accept) X(203, connect) X(204, getsockname) X(205, getpeername) X(206, sendto) X(207, recvfrom) \
	X(208, setsockopt) X(209, getsockopt) X(210, shutdown) X(211, sendmsg) X(212, recvmsg) \
	X(213, readahead) X(214, brk) X(215, munmap) X(216, mremap) X(217, add_key) X(218, request_key) \
	X(219, keyctl) X(220, clone) X(221, execve) X(222, mmap) X(223, fadvise64) X(224, swapon) \
	X(225, swapoff) X(226, mprotect) X(227, msync) X(228, mlock) X(229, munlock) X(230, mlockall) \
	X(231, munlockall) X(232, mincore) X(233, madvise) X(234, remap_file_pages) X(235, mbind) \
	X(236, get_mempolicy) X(237, set_mempolicy) X(238, migrate_pages) X(239, move_pages) \
	X(240, rt_tgsigqueueinfo) X(241, perf_event_open) X(242, accept4) X(243, recvmmsg) X(260, wait4) \
	X(261, prlimit64) X(262, fanotify_init) X(263, fanotify_mark) X(264, name_to_handle_at) \
	X(265, open_by_handle_at) X(266, clock_adjtime) X(267, syncfs) X(268, setns) X(269, sendmmsg) \
	X(270, process_vm_readv) X(271, process_vm_writev) X(272, kcmp) X(273, finit_module) \
	X(274, sched_setattr) X(275, sched_getattr) X(276, renameat2) X(277, seccomp) X(278, getrandom) \
	X(279, memfd_create) X(280, bpf) X(281, execveat) X(282, userfaultfd) X(283, membarrier) \
	X(284, mlock2) X(285, copy_file_range) X(286, preadv2) X(287, pwritev2) X(288, pkey_mprotect) \
	X(289, pkey_alloc) X(290, pkey_free) X(291, statx) X(292, io_pgetevents) X(293, rseq) \
	X(294, kexec_file_load) X(424, pidfd_send_signal) X(425, io_uring_setup) X(426, io_uring_enter) \
	X(427, io_uring_register) X(428, open_tree) X(429, move_mount) X(430, fsopen) X(431, fsconfig) \
	X(432, fsmount) X(433, fspick) X(434, pidfd_open) X(435, clone3) X(436, close_range) X(437, openat2) \
	X(438, pidfd_getfd) X(439, faccessat2) X(440, process_madvise) X(441, epoll_pwait2) \
	X(442, mount_setattr) X(443, quotactl_fd) X(444, landlock_create_ruleset) X(445, landlock_add_rule) \
	X(446, landlock_restrict_self) X(447, memfd_secret) X(448, process_mrelease) X(449, futex_waitv) \
	X(450, set_mempolicy_home_node) X(451, cachestat) X(452, fchmodat2) X(453, map_shadow_stack) \
	X(454, futex_wake) X(455, futex_wait) X(456, futex_requeue) X(457, statmount) X(458, listmount) \
	X(459, lsm_get_self_attr) X(460, lsm_set_self_attr) X(461, lsm_list_modules) X(462, mseal) \
	X(463, setxattrat) X(464, getxattrat) X(465, listxattrat) X(466, removexattrat)
/* clang-format on */

enum {
#define SYSCALL_NUMBER(number, name) SYSCALL_##name = (number),
	SYSCALLS(SYSCALL_NUMBER)
#undef SYSCALL_NUMBER
};

#endif
