//! Takes capabilities away from a process of root, which could otherwise do things that neither
//! Landlock nor a filter of system calls restricts. What root needs to work with the files of other
//! users stays.

use std::io;

/// By their numbers in linux/capability.h.
const DANGEROUS: &[u32] = &[
    2,  // CAP_DAC_READ_SEARCH
    5,  // CAP_KILL
    9,  // CAP_LINUX_IMMUTABLE
    11, // CAP_NET_BROADCAST
    12, // CAP_NET_ADMIN
    13, // CAP_NET_RAW
    14, // CAP_IPC_LOCK
    15, // CAP_IPC_OWNER
    16, // CAP_SYS_MODULE
    17, // CAP_SYS_RAWIO
    18, // CAP_SYS_CHROOT
    19, // CAP_SYS_PTRACE
    20, // CAP_SYS_PACCT
    21, // CAP_SYS_ADMIN
    22, // CAP_SYS_BOOT
    23, // CAP_SYS_NICE
    24, // CAP_SYS_RESOURCE
    25, // CAP_SYS_TIME
    26, // CAP_SYS_TTY_CONFIG
    27, // CAP_MKNOD
    29, // CAP_AUDIT_WRITE
    30, // CAP_AUDIT_CONTROL
    31, // CAP_SETFCAP
    32, // CAP_MAC_OVERRIDE
    33, // CAP_MAC_ADMIN
    34, // CAP_SYSLOG
    35, // CAP_WAKE_ALARM
    36, // CAP_BLOCK_SUSPEND
    37, // CAP_AUDIT_READ
    38, // CAP_PERFMON
    39, // CAP_BPF
    40, // CAP_CHECKPOINT_RESTORE
];

/// A set of capabilities in two words, as capget(2) and capset(2) have it.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Makes system calls and does nothing else.
pub(super) fn drop_dangerous() -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both pointers are valid for the structures of this version.
    #[allow(unsafe_code)]
    unsafe {
        if libc::syscall(libc::SYS_capget, &mut header, data.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        if data.iter().all(|words| words.permitted == 0) {
            return Ok(());
        }
        for &capability in DANGEROUS {
            // Fails where the kernel does not know the capability, or where the process may not
            // change the bounding set; then it is taken away below, and no new privileges keep an
            // exec from bringing it back.
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0);
            let word = &mut data[capability as usize / 32];
            let bit = !(1u32 << (capability % 32));
            word.effective &= bit;
            word.permitted &= bit;
            word.inheritable &= bit;
        }
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if libc::syscall(libc::SYS_capset, &header, data.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
