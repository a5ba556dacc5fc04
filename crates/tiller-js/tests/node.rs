//! Node's modules and web globals.
#![allow(clippy::unwrap_used)]

mod support;

use expect_test::{Expect, expect};
use support::Stage;

/// Runs an async function body and compares what it logs.
async fn check(body: &str, expect: Expect) {
    check_with(body, |_| {}, expect).await;
}

async fn check_with(body: &str, set_up: impl FnOnce(&Stage), expect: Expect) {
    let source = format!(
        "export default (pi) => pi.registerCommand('go', {{ handler: async () => {{ const log = console.log; {body} }} }});"
    );
    let stage = Stage::play(&[("ext.ts", &source), ("a.txt", "one\ntwo\n")]).await;
    set_up(&stage);
    stage.log();
    stage.command("go").await;
    expect.assert_eq(&stage.log());
}

#[tokio::test]
async fn synchronous_file_functions() {
    check(
        r#"
        const fs = require("fs"); const path = require("path");
        log(fs.readFileSync("a.txt", "utf8"), fs.existsSync("no"), fs.statSync("a.txt").size, fs.statSync(".").isDirectory());
        fs.mkdirSync("d/e", { recursive: true }); fs.writeFileSync("d/e/f", Buffer.from([1, 2, 3])); fs.appendFileSync("d/e/f", "x");
        log(fs.readFileSync("d/e/f"), fs.readdirSync("d"), fs.readdirSync("d", { recursive: true, withFileTypes: true }).map((e) => [e.name, e.isFile()]));
        fs.renameSync("d/e/f", "d/g"); fs.copyFileSync("d/g", "d/h"); fs.symlinkSync("h", "d/l");
        log(fs.readlinkSync("d/l"), path.basename(fs.realpathSync("d/l")), fs.lstatSync("d/l").isSymbolicLink());
        fs.chmodSync("d/g", 0o600); log((fs.statSync("d/g").mode & 0o777).toString(8));
        const fd = fs.openSync("a.txt", "r"); const b = Buffer.alloc(3); log(fs.readSync(fd, b, 0, 3, 4), b.toString()); fs.closeSync(fd);
        log(fs.mkdtempSync("t-").length);
        fs.rmSync("d", { recursive: true }); fs.rmSync("d", { force: true }); fs.unlinkSync("a.txt");
        for (const work of [() => fs.readFileSync("gone"), () => fs.mkdirSync("."), () => fs.rmdirSync("gone"), () => fs.accessSync("gone"), () => fs.closeSync(77), () => fs.readFileSync(null)]) {
            try { work(); } catch (error) { log(error.code, error.message.replace(/'.*'/, "PATH")); }
        }
        log(fs.statSync("gone", { throwIfNoEntry: false }));
        "#,
        expect![[r#"
            Info: one
            two
             false 8 true
            Info: <Buffer 01 02 03 78> [ 'e' ] [ [ 'e', false ], [ 'f', true ] ]
            Info: h h true
            Info: 600
            Info: 3 two
            Info: 8
            Info: ENOENT ENOENT: no such file or directory, open PATH
            Info: EEXIST EEXIST: file already exists, mkdir PATH
            Info: ENOENT ENOENT: no such file or directory, rmdir PATH
            Info: ENOENT ENOENT: no such file or directory, access PATH
            Info: EBADF EBADF: bad file descriptor, close
            Info: ERR_INVALID_ARG_TYPE The "path" argument must be of type string or an instance of Buffer or URL. Received null
            Info: undefined"#]],
    )
    .await;
}

#[tokio::test]
async fn files_by_promise_callback_and_stream() {
    check(
        r#"
        const fs = require("node:fs"); const { readFile, writeFile, open, readdir } = await import("node:fs/promises");
        await writeFile("b.txt", "hello"); log(await readFile("b.txt", { encoding: "utf8" }), (await readdir(".")).includes("b.txt"));
        await readFile("gone").catch((error) => log(error.code, error.syscall));
        log(await new Promise((done) => fs.readFile("b.txt", "utf8", (error, text) => done(text))));
        const file = await open("b.txt"); log((await file.read(Buffer.alloc(2), 0, 2, 1)).buffer.toString(), (await file.stat()).size); await file.close();
        const { createInterface } = require("readline");
        for await (const line of createInterface({ input: fs.createReadStream("a.txt") })) log("line", line);
        const { pipeline } = require("stream/promises");
        await pipeline(fs.createReadStream("a.txt"), fs.createWriteStream("c.txt")); log(await readFile("c.txt", "utf8") === await readFile("a.txt", "utf8"));
        const seen = new Promise((done) => { const w = fs.watch("."); w.on("change", (kind, name) => { w.close(); done([kind, name]); }); });
        await writeFile("new.txt", ""); log(await seen);
        "#,
        expect![[r#"
            Info: hello true
            Info: ENOENT open
            Info: hello
            Info: el 5
            Info: line one
            Info: line two
            Info: true
            Info: [ 'rename', 'new.txt' ]"#]],
    )
    .await;
}

#[tokio::test]
async fn paths_and_urls() {
    check(
        r#"
        const path = require("path"); const url = require("url");
        log(path.join("a", "..", "/b", "./c/"), path.resolve("/a", "b", "../c"), path.relative("/a/b/c", "/a/d"), path.dirname("/a/b/"), path.dirname("/a"), path.dirname("a"));
        log(path.basename("/a/b.txt", ".txt"), path.extname("a.b.c"), path.extname(".x"), path.isAbsolute("/"), path.normalize("/a//b/../c/."), path.parse("/h/f.txt"), path.format({ dir: "/d", name: "n", ext: "e" }));
        log(path.win32.join("a", "b"), path.win32.basename("C:\\x\\y.z"), path.sep, path.delimiter, path.matchesGlob("src/a/b.ts", "src/**/*.ts"));
        log(url.fileURLToPath("file:///a%20b"), url.pathToFileURL("/a b#c").href, url.parse("http://u:p@h:1/p?q=1#f").pathname);
        const u = new URL("../x?a=1&b=2#h", "https://me@example.com:444/a/b/c"); u.searchParams.append("c", "ü &"); u.port = "";
        log(u.href, u.host, [...u.searchParams.keys()], URL.canParse("nope"), new URLSearchParams({ a: "1 2", b: "&" }).toString());
        try { new URL("nope"); } catch (error) { log(error.name, error.code); }
        "#,
        expect![[r#"
            Info: b/c/ /a/c ../../d /a / .
            Info: b .c  true /a/c { root: '/', dir: '/h', base: 'f.txt', ext: '.txt', name: 'f' } /d/n.e
            Info: a\b y.z / : true
            Info: /a b file:///a%20b%23c /p
            Info: https://me@example.com/a/x?a=1&b=2&c=%C3%BC+%26#h example.com [ 'a', 'b', 'c' ] false a=1+2&b=%26
            Info: TypeError ERR_INVALID_URL"#]],
    )
    .await;
}

#[tokio::test]
async fn bytes_and_text() {
    check(
        r#"
        log(Buffer.from("héllo").toString("hex"), Buffer.from("aGk", "base64").toString(), Buffer.from("hi").toString("base64url"), Buffer.byteLength("é"));
        log(Buffer.concat([Buffer.from("a"), Buffer.from("b")]).equals(Buffer.from("ab")), Buffer.from([1, 2, 3]).subarray(1).length, Buffer.alloc(2, "x").toString(), Buffer.isBuffer(new Uint8Array(1)));
        const b = Buffer.alloc(8); b.writeUInt32BE(0xdeadbeef, 0); b.writeInt16LE(-2, 4); log(b.toString("hex"), b.readUInt32BE(0), b.readInt16LE(4), b.indexOf("\u00be"), JSON.stringify(b.subarray(0, 1)));
        log(new TextDecoder().decode(new TextEncoder().encode("€")), atob(btoa("xyz")), new TextDecoder("latin1").decode(Uint8Array.of(233)));
        const decoder = new TextDecoder(); log(decoder.decode(Uint8Array.of(0xe2, 0x82), { stream: true }) + decoder.decode(Uint8Array.of(0xac)));
        const util = require("util");
        log(util.format("%s %d %j %%", "a", 1, { b: 2 }), util.inspect({ a: [1, { b: { c: {} } }], f() {}, m: new Map([[1, "x"]]), s: "it's" }), util.isDeepStrictEqual({ a: [1] }, { a: [1] }));
        log(structuredClone({ d: new Date(0), m: new Map([[1, new Set([2])]]) }), util.stripVTControlCharacters("\u001b[31mred\u001b[0m"), util.parseArgs({ args: ["-v", "--n=1", "p"], options: { v: { type: "boolean", short: "v" }, n: { type: "string" } }, allowPositionals: true }));
        "#,
        expect![[r#"
            Info: 68c3a96c6c6f hi aGk 2
            Info: true 2 xx false
            Info: deadbeeffeff0000 3735928559 -2 -1 {"type":"Buffer","data":[222]}
            Info: € xyz é
            Info: €
            Info: a 1 {"b":2} % {
              a: [ 1, { b: [Object] } ],
              f: [Function: f],
              m: Map(1) { 1 => 'x' },
              s: "it's"
            } true
            Info: { d: 1970-01-01T00:00:00.000Z, m: Map(1) { 1 => Set(1) { 2 } } } red { values: { v: true, n: '1' }, positionals: [ 'p' ] }"#]],
    )
    .await;
}

#[tokio::test]
async fn digests_and_compression() {
    check(
        r#"
        const crypto = require("crypto"); const zlib = require("zlib");
        log(crypto.createHash("sha256").update("a").update("b").digest("hex").slice(0, 16), crypto.createHmac("sha1", "k").update("d").digest("base64"), crypto.randomBytes(4).length);
        log(/^[0-9a-f]{8}-[0-9a-f]{4}-4/.test(crypto.randomUUID()), crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")), crypto.randomInt(5) < 5, crypto.pbkdf2Sync("p", "s", 1, 8, "sha256").toString("hex"));
        log(Buffer.from(await globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode("ab"))).toString("hex").slice(0, 8));
        try { crypto.createCipheriv("aes", "", ""); } catch (error) { log(error.message); }
        const packed = zlib.gzipSync("hello ".repeat(100)); log(packed.length < 100, zlib.gunzipSync(packed).toString().length, zlib.inflateRawSync(zlib.deflateRawSync("x")).toString(), zlib.crc32("hello"));
        log((await new Promise((done) => zlib.deflate("abc", (e, b) => done(zlib.inflateSync(b))))).toString());
        try { zlib.gunzipSync("no"); } catch (error) { log(error.code); }
        "#,
        expect![[r#"
            Info: fb8e20fc2e4c3f24 K5DkHnwMyOL3XAKRDDiZzEaLoxY= 4
            Info: true true true 372cc9815244c4a2
            Info: fb8e20fc
            Info: crypto.createCipheriv is not supported inside tiller
            Info: true 600 x 907060870
            Info: abc
            Info: Z_DATA_ERROR"#]],
    )
    .await;
}

#[tokio::test]
async fn children() {
    check(
        r#"
        const cp = require("child_process"); const { promisify } = require("util");
        log(cp.execSync("echo hi; echo no >&2").toString(), Object.values(cp.spawnSync("sh", ["-c", "cat; exit 2"], { input: "in", encoding: "utf8" })).slice(1), cp.execFileSync("printf", ["%s", "x y"], { encoding: "utf8" }));
        try { cp.execSync("echo bad >&2; exit 3", { stdio: "pipe" }); } catch (error) { log(error.status, error.message, String(error.stderr)); }
        log(cp.spawnSync("no-such-program").error.code, cp.spawnSync("sleep", ["5"], { timeout: 30 }).error.code);
        log(await promisify(cp.exec)("echo $COLOUR"), (await promisify(cp.execFile)("false").catch((error) => error)).code);
        const child = cp.spawn("sh", ["-c", "read line; echo got $line; exit 4"], { env: { PATH: process.env.PATH } });
        child.stdin.write("some"); child.stdin.end(" text\n"); let out = ""; child.stdout.on("data", (chunk) => { out += chunk; });
        log(await new Promise((done) => child.on("close", (code, signal) => done([code, signal, out, child.pid > 0]))));
        const slow = cp.spawn("sleep", ["5"]); slow.kill("SIGKILL"); log(await new Promise((done) => slow.on("exit", (code, signal) => done([code, signal]))));
        log(await new Promise((done) => cp.spawn("no-such-program").on("error", (error) => done(error.code))));
        const big = cp.spawn("sh", ["-c", "head -c 9000000 /dev/zero"]); let size = 0; for await (const chunk of big.stdout) size += chunk.length; log(size);
        "#,
        expect![[r#"
            Info: hi
             [ 2, null, [ null, 'in', '' ], 'in', '' ] x y
            Info: 3 Command failed: echo bad >&2; exit 3
            bad
             bad

            Info: ENOENT ETIMEDOUT
            Info: { stdout: 'blue\n', stderr: '' } 1
            Info: [ 4, null, 'got some text\n', true ]
            Info: [ null, 'SIGKILL' ]
            Info: ENOENT
            Info: 9000000"#]],
    )
    .await;
}

#[tokio::test]
async fn fetching() {
    check_with(
        r#"
        const answer = await fetch("http://x/page", { method: "POST", headers: { "X-A": "1" }, body: JSON.stringify({ a: 1 }) });
        log(answer.status, answer.ok, answer.headers.get("Content-Type"), await answer.text());
        const reader = (await fetch("http://x/page")).body.getReader(); const parts = [];
        for (;;) { const { value, done } = await reader.read(); if (done) break; parts.push(new TextDecoder().decode(value)); } log(parts);
        let text = ""; for await (const part of (await fetch("http://x/page")).body.pipeThrough(new TextDecoderStream())) text += part; log(text);
        await fetch("http://gone/").catch((error) => log(error.message, error.cause.message));
        await fetch("http://x/page", { signal: AbortSignal.abort() }).catch((error) => log(error.name));
        const form = new FormData(); form.append("f", new Blob(["data"]), "n.txt"); log((await new Response(form).text()).includes('filename="n.txt"'));
        const http = require("http"); const got = await new Promise((done) => http.get("http://x/page", (res) => { let all = ""; res.on("data", (c) => { all += c; }); res.on("end", () => done([res.statusCode, res.headers["content-type"], all])); })); log(got);
        log(await new Promise((done) => http.get("http://gone/").on("error", (error) => done(error.code))));
        log(new Headers([["a", "1"], ["A", "2"]]).get("a"), await Response.json({ a: 1 }).json(), new Request("http://x/").method);
        "#,
        |stage| {
            let page = vec!["one ".to_owned(), "two".to_owned()];
            stage.host.pages.lock().unwrap().insert("http://x/page".into(), page);
        },
        expect![[r#"
            http POST http://x/page [("accept", "*/*"), ("content-type", "text/plain;charset=UTF-8"), ("user-agent", "node"), ("x-a", "1")] Some("{\"a\":1}")
            Info: 200 true text/plain one two
            http GET http://x/page [("accept", "*/*"), ("user-agent", "node")] None
            Info: [ 'one ', 'two' ]
            http GET http://x/page [("accept", "*/*"), ("user-agent", "node")] None
            Info: one two
            http GET http://gone/ [("accept", "*/*"), ("user-agent", "node")] None
            Info: fetch failed connect ECONNREFUSED
            Info: AbortError
            Info: true
            http GET http://x/page [] None
            Info: [ 200, 'text/plain', 'one two' ]
            http GET http://gone/ [] None
            Info: ECONNREFUSED
            Info: 1, 2 { a: 1 } GET"#]],
    )
    .await;
}

#[tokio::test]
async fn servers_and_sockets() {
    check(
        r#"
        const http = require("http"); const net = require("net");
        const server = http.createServer((req, res) => { let body = ""; req.on("data", (c) => { body += c; }); req.on("end", () => { res.setHeader("X-B", "2"); res.writeHead(201, { "Content-Type": "text/plain" }); res.end(`${req.method} ${req.url} ${body}`); }); });
        await new Promise((done) => server.listen(0, "127.0.0.1", done));
        const { port } = server.address();
        const reply = await new Promise((done) => { const s = net.connect(port, "127.0.0.1", () => s.end("POST /p?q HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")); let all = ""; s.setEncoding("utf8"); s.on("data", (c) => { all += c; }); s.on("close", () => done(all)); });
        log(reply.split("\r\n"));
        server.close();
        log(await new Promise((done) => net.connect(1, "127.0.0.1").on("error", (error) => done([error.code, error.message]))));
        const echo = net.createServer((socket) => socket.pipe(socket)); await new Promise((done) => echo.listen(require("path").resolve("s.sock"), done));
        log(await new Promise((done) => { const s = net.connect(require("path").resolve("s.sock")); s.on("data", (c) => { s.end(); done(String(c)); }); s.write("echo"); })); echo.close();
        log(net.isIP("::1"), net.isIP("1.2.3.4"), net.isIP("x"));
        "#,
        expect![[r#"
            Info: [
              'HTTP/1.1 201 Created',
              'X-B: 2',
              'Content-Type: text/plain',
              'Content-Length: 14',
              'Connection: close',
              '',
              'POST /p?q body'
            ]
            Info: [ 'ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1' ]
            Info: echo
            Info: 6 4 0"#]],
    )
    .await;
}

#[tokio::test]
async fn events_streams_and_timers() {
    check(
        r#"
        const { EventEmitter, once } = require("events"); const { Readable, Transform, Writable, PassThrough } = require("stream");
        const e = new EventEmitter(); e.once("a", (x) => log("once", x)); e.on("a", (x) => log("on", x)); e.emit("a", 1); e.emit("a", 2); log(e.listenerCount("a"), e.emit("nobody"));
        try { e.emit("error", new Error("unheard")); } catch (error) { log(error.message); }
        setTimeout(() => e.emit("later", 3), 1); log(await once(e, "later"));
        class Old { constructor() { EventEmitter.call(this); } } require("util").inherits(Old, EventEmitter); const o = new Old(); o.on("x", () => log("old")); o.emit("x");
        const upper = new Transform({ transform(chunk, _, done) { done(null, String(chunk).toUpperCase()); } });
        let all = ""; for await (const chunk of Readable.from(["a", "b"]).pipe(upper)) all += chunk; log(all);
        const kept = []; await new Promise((done) => { const w = new Writable({ write(c, _, next) { kept.push(String(c)); setTimeout(next, 1); } }); w.on("finish", done); w.write("1"); w.write("2"); w.end("3"); }); log(kept);
        const order = []; setTimeout(() => order.push("timeout"), 0); setImmediate(() => order.push("immediate")); process.nextTick(() => order.push("tick")); queueMicrotask(() => order.push("micro")); await new Promise((done) => setTimeout(done, 20)); log(order.slice(0, 2), order.length);
        const { setTimeout: sleep } = require("timers/promises"); log(await sleep(1, "slept")); await sleep(1000, 0, { signal: AbortSignal.timeout(5) }).catch((error) => log(error.name));
        const t = setInterval(() => {}, 10); log(typeof t.ref, t.hasRef()); clearInterval(t);
        const any = AbortSignal.any([new AbortController().signal, AbortSignal.abort("why")]); log(any.aborted, any.reason);
        "#,
        expect![[r#"
            Info: once 1
            Info: on 1
            Info: on 2
            Info: 1 false
            Info: unheard
            Info: [ 3 ]
            Info: old
            Info: AB
            Info: [ '1', '2', '3' ]
            Info: [ 'tick', 'micro' ] 4
            Info: slept
            Info: TimeoutError
            Info: function true
            Info: true why"#]],
    )
    .await;
}

#[tokio::test]
async fn the_process_and_the_machine() {
    check(
        r#"
        const os = require("os");
        log(typeof process.platform, process.argv, process.execPath, process.env.COLOUR, typeof process.pid, process.version, process.cwd() === require("path").resolve("."));
        log(os.platform() === process.platform, os.homedir().endsWith("home"), os.EOL === "\n", os.cpus().length > 0, os.totalmem() > 0, typeof os.userInfo().username);
        process.stdout.write("to the log\n"); process.stderr.write("errors "); process.stderr.write("too\n");
        log(new Intl.NumberFormat("en-US").format(1234567.891), (1234.5).toLocaleString(), new Intl.PluralRules("en").select(1), [...new Intl.Segmenter().segment("e\u0301x")].length);
        log(typeof performance.now(), globalThis === global, typeof WebAssembly, require("module").builtinModules.length > 10);
        for (const name of ["node:sqlite", "worker_threads", "dgram"]) { const m = require(name); try { new (m.DatabaseSync ?? m.Worker ?? m.Socket)(":memory:"); } catch (error) { log(error.message); } }
        const { parseFrontmatter, truncateHead, formatSize, serializeConversation, convertToLlm } = require("@earendil-works/pi-coding-agent");
        log(parseFrontmatter("---\nname: x\nlist: [a, 'b']\nnested:\n  - k: 1\n    v: true\ntext: |\n  l1\n  l2\n---\n\nBody\n"));
        log(truncateHead("a\nb\nc", { maxLines: 2 }).content, formatSize(1536), serializeConversation(convertToLlm([{ role: "user", content: "q" }, { role: "assistant", content: [{ type: "text", text: "a" }, { type: "toolCall", name: "t", arguments: { x: 1 } }] }])));
        const { visibleWidth, truncateToWidth, wrapTextWithAnsi, matchesKey, Key } = require("@earendil-works/pi-tui");
        log(visibleWidth("a\u001b[31m日本\u001b[0m"), JSON.stringify(truncateToWidth("hello host", 8)), wrapTextWithAnsi("one two three", 7), matchesKey("\u0003", Key.ctrl("c")), matchesKey("\r", "enter"));
        "#,
        expect![[r#"
            Info: string [ '/usr/bin/tiller' ] /usr/bin/tiller blue number v24.0.0 true
            Info: true true true true true string
            Info: to the log
            Error: errors too
            Info: 1,234,567.891 1,234.5 one 2
            Info: number true undefined true
            Info: node:sqlite cannot run inside tiller
            Info: node:worker_threads.Worker cannot run inside tiller
            Info: node:dgram cannot run inside tiller
            Info: {
              frontmatter: { name: 'x', list: [ 'a', 'b' ], nested: [ [Object] ], text: 'l1\nl2\n' },
              body: 'Body'
            }
            Info: a
            b 1.5KB [User]: q

            [Assistant]: a

            [Assistant tool calls]: t(x=1)
            Info: 5 "hello\u001b[0m...\u001b[0m" [ 'one two', 'three' ] true true"#]],
    )
    .await;
}

#[tokio::test]
async fn every_built_in_module_loads() {
    check(
        r#"
        const pi = ["pi-coding-agent", "pi-ai", "pi-ai/compat", "pi-ai/oauth", "pi-tui", "pi-agent-core"].map((name) => `@earendil-works/${name}`);
        const names = [...require("module").builtinModules.map((name) => `node:${name}`), ...pi, "typebox", "typebox/value", "typebox/compile"];
        for (const name of names) { try { const all = await import(name); if (all.default === undefined) log(name, "has no default"); } catch (error) { log(name, error.message); } }
        const globals = ["fetch", "Headers", "Request", "Response", "FormData", "Blob", "File", "ReadableStream", "WritableStream", "TransformStream", "TextDecoderStream", "TextEncoderStream", "MessageChannel", "BroadcastChannel", "Event", "EventTarget", "CustomEvent", "DOMException", "performance", "crypto", "Intl", "structuredClone", "setImmediate", "navigator"];
        log(names.length > 50, globals.filter((name) => globalThis[name] === undefined));
        "#,
        expect!["Info: true []"],
    )
    .await;
}
