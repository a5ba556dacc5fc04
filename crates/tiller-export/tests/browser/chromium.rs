//! Headless Chromium to test the exported page, driven through a pair of pipes with the DevTools
//! protocol. Requests and events are JSON, each ended by a zero byte.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::skip::skip;

/// How long anything in the browser may take. A busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// One browser at a time: each is several processes.
static TURN: Mutex<()> = Mutex::new(());

pub struct Tab {
    browser: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Events that were not read yet.
    pub events: VecDeque<Value>,
    session: String,
    next_id: u64,
    _profile: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The path of the browser.
fn find() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let in_path = || {
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let candidates =
            names.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
        candidates.into_iter().find(|candidate| candidate.is_file())
    };
    named.or_else(in_path)
}

/// Runs a test with a fresh tab, unless there is no browser. On failure, a screenshot is in
/// `target/tmp`.
pub fn with_tab(name: &str, test: impl FnOnce(&mut Tab) + std::panic::UnwindSafe) {
    let Some(program) = find() else {
        skip(
            "BROWSER",
            "there is no Chromium: install Debian's `chromium`, or name one by CHROMIUM",
        );
        return;
    };
    let mut tab = Tab::open(&program);
    let outcome = {
        let tab = std::panic::AssertUnwindSafe(&mut tab);
        std::panic::catch_unwind(move || {
            let tab = tab;
            test(tab.0);
        })
    };
    if let Err(why) = outcome {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}.png"));
        tab.screenshot(&path);
        std::panic::resume_unwind(why);
    }
}

impl Tab {
    fn open(program: &Path) -> Tab {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = tempfile::tempdir().unwrap();
        // The browser reads requests from its file descriptor 3 and writes answers to 4.
        let mut browser = Command::new("/bin/sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-extensions",
                "--no-first-run",
                "--lang=en-US",
                "--window-size=1280,900",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = browser.stdin.take().unwrap();
        let mut out = BufReader::new(browser.stdout.take().unwrap());
        let (received, from) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            while out.read_until(0, &mut bytes).is_ok_and(|len| len > 0) {
                let message = serde_json::from_slice(&bytes[..bytes.len() - 1]);
                if message.is_ok_and(|message| received.send(message).is_err()) {
                    break;
                }
                bytes.clear();
            }
        });
        let mut tab = Tab {
            browser,
            to,
            from,
            events: VecDeque::new(),
            session: String::new(),
            next_id: 0,
            _profile: profile,
            _turn: turn,
        };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = tab.call("Target.attachToTarget", attach);
        tab.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        tab
    }

    /// Sends a request to the browser and waits for the answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut request = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(format!("{request}\0").as_bytes()).unwrap();
        self.to.flush().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message =
                self.from.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Opens a page and waits until its script has finished.
    pub fn go(&mut self, page: &Path, hash: &str) {
        self.go_without_waiting(page, hash);
        self.until("document.documentElement.dataset.ready === 'yes'");
    }

    pub fn go_without_waiting(&mut self, page: &Path, hash: &str) {
        let url = format!("file://{}{hash}", page.display());
        let went = self.call("Page.navigate", json!({"url": url}));
        assert!(went["errorText"].is_null(), "{went}");
        self.until("document.readyState === 'complete'");
    }

    /// The value of a JavaScript expression; a promise is awaited.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(expression) != true {
            assert!(Instant::now() < deadline, "never true: {expression}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses and releases a key that types this character, or a named key.
    pub fn press(&mut self, key: &str) {
        let is_letter = key.chars().count() == 1;
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = if is_letter {
            key
        } else if key == "Enter" {
            "\r"
        } else {
            ""
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [kind, "keyUp"] {
            let text = if kind == "keyUp" { "" } else { text };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Clicks on the middle of the first element that matches the selector, once it has stopped
    /// moving and nothing covers it.
    pub fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        let look = format!(
            "(() => {{
                const element = document.querySelector({selector});
                element.scrollIntoView({{block: 'center'}});
                const {{x, y, width, height}} = element.getBoundingClientRect();
                const at = [x + width / 2, y + height / 2];
                return element.contains(document.elementFromPoint(...at)) ? [...at, width, height] : null;
            }})()"
        );
        let deadline = Instant::now() + PATIENCE;
        let (mut place, mut still) = (Value::Null, 0);
        while still < 3 {
            assert!(Instant::now() < deadline, "it cannot be clicked on: {selector}");
            thread::sleep(Duration::from_millis(20));
            let now = self.eval(&look);
            still = if now == place && !now.is_null() { still + 1 } else { 0 };
            place = now;
        }
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    pub fn screenshot(&mut self, path: &Path) {
        use base64::Engine;
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let data = answer["data"].as_str().unwrap_or_default();
        let png = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        std::fs::write(path, png).unwrap();
    }

    /// Console errors and network requests since the browser was started.
    pub fn misdeeds(&mut self) -> Vec<String> {
        // All earlier events have arrived before this answer.
        self.eval("0");
        let mut misdeeds = Vec::new();
        for event in &self.events {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => misdeeds.push(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => misdeeds.push(params["args"].to_string()),
                "Log.entryAdded" => misdeeds.push(params["entry"]["text"].to_string()),
                "Page.javascriptDialogOpening" => misdeeds.push(params["message"].to_string()),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    let is_inside = ["file:", "data:", "blob:", "about:"]
                        .iter()
                        .any(|scheme| url.starts_with(scheme));
                    if !is_inside {
                        misdeeds.push(format!("a request to {url}"));
                    }
                }
                _ => {}
            }
        }
        misdeeds
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // It would end with its pipes anyway; this is faster, and the profile can be removed.
        self.browser.kill().ok();
        self.browser.wait().ok();
    }
}
