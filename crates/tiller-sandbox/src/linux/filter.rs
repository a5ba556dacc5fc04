//! The filters of system calls: no sockets where there is no network, none of the calls that
//! Landlock does not restrict and that lead out of the sandbox.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// These fail with EPERM, whatever their arguments.
const REFUSED: &[i64] = &[
    // Mounts, and other views of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // What processes of one user share without files.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmget,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[libc::SYS_kexec_file_load];

/// These fail with ENOSYS, because programs then use an older call that can be filtered: a filter
/// does not see what the arguments of these point to.
const HIDDEN: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

pub(super) fn programs(network: bool) -> Result<Vec<BpfProgram>, seccompiler::Error> {
    let hidden = HIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    let mut programs =
        vec![program(refused(network)?, libc::EPERM)?, program(hidden, libc::ENOSYS)?];
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

fn program(rules: CallRules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    Ok(filter.try_into()?)
}

fn refused(network: bool) -> Result<CallRules, seccompiler::Error> {
    let mut rules: CallRules =
        REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let mut refuse_if = |call: i64, conditions: Vec<Result<SeccompCondition, _>>| {
        let conditions = conditions.into_iter().collect::<Result<Vec<_>, _>>()?;
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
        Ok::<(), seccompiler::BackendError>(())
    };
    // Sockets. Those of Unix lead to services of the user such as ssh-agent or docker.
    let others = |families: &[i32]| families.iter().map(|family| is_not(0, *family)).collect();
    if network {
        let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        refuse_if(libc::SYS_socket, others(&families))?;
    } else {
        // None has this number.
        refuse_if(libc::SYS_socket, others(&[-1]))?;
    }
    // A pair of streams is a pipe in both directions; a datagram socket could send anywhere.
    refuse_if(libc::SYS_socketpair, others(&[libc::AF_UNIX]))?;
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM] {
        refuse_if(libc::SYS_socketpair, vec![has_masked(1, 0xf, kind)])?;
    }
    for namespace in NAMESPACES {
        refuse_if(libc::SYS_unshare, vec![has_bit(0, namespace)])?;
        // The lowest byte is the signal at the end, and 0x80 no flag there.
        if namespace != 0x80 {
            refuse_if(libc::SYS_clone, vec![has_bit(0, namespace)])?;
        }
    }
    // Files that run with the rights of their owner.
    for bit in [0o4000, 0o2000] {
        for (call, argument) in MODES {
            refuse_if(*call, vec![has_bit(*argument, bit)])?;
        }
        for (call, flags) in OPENS {
            // Without O_CREAT the mode is whatever the register has.
            refuse_if(*call, vec![has_bit(*flags, libc::O_CREAT), has_bit(*flags + 1, bit)])?;
        }
    }
    // The limits of other processes.
    refuse_if(libc::SYS_prlimit64, vec![is_not(0, 0)])?;
    // Input for a terminal, as if it were typed.
    for request in [libc::TIOCSTI as i32, 0x541c] {
        refuse_if(libc::SYS_ioctl, vec![is(1, request)])?;
    }
    Ok(rules)
}

/// Calls with the mode of a file, and which argument it is.
#[cfg(target_arch = "x86_64")]
const MODES: &[(i64, u8)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (452, 2), // fchmodat2
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
#[cfg(not(target_arch = "x86_64"))]
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (452, 2), // fchmodat2
    (libc::SYS_mknodat, 2),
];

/// Calls with the flags of an open file, which argument they are; the mode follows.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(i64, u8)] = &[(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2)];

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

fn condition(argument: u8, operator: SeccompCmpOp, value: i32) -> Condition {
    let value = u64::from(value as u32);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn is(argument: u8, value: i32) -> Condition {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: i32) -> Condition {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn has_bit(argument: u8, bit: i32) -> Condition {
    has_masked(argument, bit, bit)
}

fn has_masked(argument: u8, mask: i32, value: i32) -> Condition {
    condition(argument, SeccompCmpOp::MaskedEq(u64::from(mask as u32)), value)
}

/// x86-64 has a second set of numbers for the same calls, which the other filters do not know.
fn without_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    const LOAD: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let op = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // The number of the call is the first word.
        op(LOAD, 0, 0, 0),
        op(JUMP_IF_GREATER_OR_EQUAL, 0, 1, X32),
        op(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
        op(RETURN, 0, 0, ALLOW),
    ]
}
