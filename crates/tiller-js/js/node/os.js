// `os`: facts about the machine.

import { hostInfo, sync } from "tiller:host";

let known;
const info = () => (known ??= sync("os.info"));

export const EOL = "\n";
export const devNull = "/dev/null";
export const homedir = () => globalThis.process.env.HOME || hostInfo.homeDir;
export const tmpdir = () => (globalThis.process.env.TMPDIR || info().tmpdir || "/tmp").replace(/(.)\/$/, "$1");
export const hostname = () => info().hostname;
export const platform = () => hostInfo.platform;
export const arch = () => hostInfo.arch;
export const machine = () => info().machine;
export const type = () => info().type;
export const release = () => info().release;
export const version = () => info().version;
export const endianness = () => "LE";
export const availableParallelism = () => info().cpus;
export const cpus = () => Array.from({ length: info().cpus }, () => ({ model: "", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }));
export const totalmem = () => sync("os.memory").total;
export const freemem = () => sync("os.memory").free;
export const uptime = () => sync("os.memory").uptime;
export const loadavg = () => [0, 0, 0];
export const networkInterfaces = () => ({ lo: [{ address: "127.0.0.1", netmask: "255.0.0.0", family: "IPv4", mac: "00:00:00:00:00:00", internal: true, cidr: "127.0.0.1/8" }] });
export const userInfo = () => sync("os.user");
export const getPriority = () => 0;
export const setPriority = () => {};
export const constants = {
	signals: { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGUSR1: 10, SIGUSR2: 12, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15, SIGCHLD: 17, SIGCONT: 18, SIGSTOP: 19 },
	errno: { ENOENT: 2, EACCES: 13, EEXIST: 17, EPERM: 1, EINVAL: 22 },
	priority: { PRIORITY_LOW: 19, PRIORITY_NORMAL: 0, PRIORITY_HIGH: -14 },
};
