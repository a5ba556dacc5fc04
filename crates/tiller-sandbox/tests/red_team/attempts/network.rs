//! Servers, and services of the user.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::ptr::null;

use super::{Attempt, blocked, call, control};

pub(super) const ATTEMPTS: &[Attempt] = &[
    control("connect to a server", |aim| TcpStream::connect(("127.0.0.1", aim.port)).map(drop)),
    control("listen for connections", |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    control("send a datagram", |_| {
        UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", "127.0.0.1:9").map(drop)
    }),
    blocked("send a datagram with IPv6", |_| UdpSocket::bind("[::1]:0").map(drop)),
    blocked("ask for a name", |_| {
        // The resolver gives up without an error of the system; asking a server needs this socket.
        ("example.invalid", 80).to_socket_addrs().err();
        UdpSocket::bind("0.0.0.0:0")?.connect("127.0.0.1:53")
    }),
    blocked("open a raw socket", |_| call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_RAW, 1)),
    blocked("open a packet socket", |_| {
        call!(libc::SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, 0)
    }),
    control("open a netlink socket", |_| {
        call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0)
    }),
    blocked("open a socket to the host of a virtual machine", |_| {
        call!(libc::SYS_socket, libc::AF_VSOCK, libc::SOCK_STREAM, 0)
    }),
    blocked("open a socket for encryption", |_| {
        call!(libc::SYS_socket, libc::AF_ALG, libc::SOCK_SEQPACKET, 0)
    }),
    control("connect to a Unix socket", |aim| UnixStream::connect(aim.outside("socket")).map(drop)),
    control("listen on a Unix socket in the workspace", |aim| {
        UnixListener::bind(aim.own("own.socket")).map(drop)
    }),
    control("send to a Unix socket", |aim| {
        UnixDatagram::unbound()?.send_to(b"x", aim.outside("datagrams")).map(drop)
    }),
    control("send to a Unix socket from one of a pair", |aim| {
        UnixDatagram::pair()?.0.send_to(b"x", aim.outside("datagrams")).map(drop)
    }),
    control("connect to an abstract Unix socket", |aim| {
        let address = SocketAddr::from_abstract_name(&aim.abstract_name)?;
        UnixStream::connect_addr(&address).map(drop)
    }),
    blocked("set up io_uring", |_| call!(libc::SYS_io_uring_setup, 1, null::<u8>())),
    blocked("use io_uring", |_| call!(libc::SYS_io_uring_enter, -1, 0, 0, 0, null::<u8>(), 0)),
    blocked("register with io_uring", |_| {
        call!(libc::SYS_io_uring_register, -1, 0, null::<u8>(), 0)
    }),
    blocked("open a socket by the other numbers of x86-64", |_| x32_socket()),
];

#[cfg(target_arch = "x86_64")]
fn x32_socket() -> io::Result<()> {
    call!(0x4000_0000 | libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn x32_socket() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}
