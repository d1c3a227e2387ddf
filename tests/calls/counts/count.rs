// SPDX-License-Identifier: MIT
//! As count.h.
#[macro_export]
macro_rules! counted {
    ($($name:ident)*) => {
        #[allow(non_upper_case_globals)]
        mod counts { $(pub static mut $name: u64 = 0;)* }
        fn show() {
            $(println!("{}\t{}", stringify!($name), unsafe { core::ptr::read_volatile(core::ptr::addr_of!(counts::$name)) });)*
        }
    };
}

#[macro_export]
macro_rules! count {
    ($name:ident) => {
        unsafe {
            let p = core::ptr::addr_of_mut!(counts::$name);
            core::ptr::write_volatile(p, core::ptr::read_volatile(p) + 1);
        }
    };
}

/// As std::hint::black_box, which Rust 1.63 does not have.
pub fn black_box<T>(v: T) -> T {
    unsafe { core::arch::asm!("/* {} */", in(reg) &v, options(nostack)) };
    v
}
