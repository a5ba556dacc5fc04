//! Random conversations: whatever a client, a model and the system do, every accepted prompt gets
//! exactly one result, and all other laws hold. With approvals, no call runs without its answer, and
//! none is asked about twice.

use super::door::Door;
use super::server::TestServer;
use super::transcript::{Line, Transcript};

const CONVERSATION_STEPS: usize = 24;

const TRANSCRIPT: &str = r#"
-- options --
wire pi-delta
sessions kept
settings {"retry":{"maxRetries":1}}
tools ls nap
extensions ext.ts

-- ext.ts --
export default function (pi) {
	pi.registerCommand("hi", { handler: async () => {} });
	pi.on("input", (event) => (event.text === "mine" ? { action: "handled" } : undefined));
}

-- conversation --
"#;

/// What the client may send. Each gets an `id`.
const COMMANDS: &[&str] = &[
    r#""type":"prompt","message":"Go""#,
    r#""type":"prompt","message":"Go","clientMessageId":"named""#,
    r#""type":"prompt","message":"Go","streamingBehavior":"steer""#,
    r#""type":"prompt","message":"Go","streamingBehavior":"followUp""#,
    r#""type":"prompt","message":"mine""#,
    r#""type":"prompt","message":"/hi""#,
    r#""type":"prompt","message":"/nothing""#,
    r#""type":"steer","message":"left""#,
    r#""type":"steer","message":"left","clientMessageId":"left""#,
    r#""type":"follow_up","message":"home""#,
    r#""type":"follow_up","message":"home","clientMessageId":"home""#,
    r#""type":"abort""#,
    r#""type":"abort_and_prompt","message":"Instead""#,
    r#""type":"abort_retry""#,
    r#""type":"clear_queue""#,
    r#""type":"remove_queued","clientMessageId":"left""#,
    r#""type":"update_queued","clientMessageId":"home","message":"back""#,
    r#""type":"new_session""#,
    r#""type":"clone""#,
    r#""type":"compact""#,
    r#""type":"set_steering_mode","mode":"all""#,
    r#""type":"set_follow_up_mode","mode":"all""#,
    r#""type":"set_interrupt_mode","mode":"immediate""#,
    r#""type":"reload""#,
    r#""type":"get_state""#,
];

/// What the model may say.
const ANSWERS: &[&str] = &[
    "say Yes.",
    "say Yes. \\",
    "stop",
    "call ls {}",
    "call nap {\"ms\":40}",
    "call nap {\"ms\":4000} \\",
    "error retry 529 overloaded",
    "error fatal 400 no",
    "error overflow too long",
    "cut",
];

/// The same where calls of `nap` and `write` need an approval.
const APPROVALS: &str = r#"
-- options --
wire pi-delta
sessions kept
settings {"approvals":"ask","permissions":{"timeoutSeconds":2},"retry":{"maxRetries":1}}
tools ls write
extensions ext.ts

-- ext.ts --
export default function (pi) {
	pi.registerTool({
		name: "nap",
		description: "Sleeps",
		parameters: { type: "object", properties: { ms: { type: "number" } } },
		execute: async (id, { ms }, signal) => {
			await new Promise((resolve, reject) => {
				setTimeout(resolve, ms);
				signal?.addEventListener("abort", () => reject(new Error("woken up")));
			});
			return { content: [{ type: "text", text: `slept ${ms} ms` }] };
		},
	});
	pi.on("tool_call", (event) => {
		if (event.input.ms === 1) return { block: true, reason: "Too short." };
		if (event.input.ms === 2) event.input.ms = 3;
	});
}

-- conversation --
"#;

/// What the client may answer.
const DECISIONS: &[&str] = &[
    r#""value":"Allow""#,
    r#""value":"Allow""#,
    r#""value":"Deny""#,
    r#""value":"Deny","reason":"No.""#,
    r#""value":"Perhaps""#,
    r#""cancelled":true"#,
];

/// What the model may say there.
const CALLS: &[&str] = &[
    "say Yes.",
    "call ls {}",
    "call nap {\"ms\":1}",
    "call nap {\"ms\":2}",
    "call write {\"path\":\"a\",\"content\":\"a\"}",
    "call write {\"path\":\"b\",\"content\":\"b\"}",
    "call write {\"path\":\"b\",\"content\":\"c\"} \\",
    "call nap {\"ms\":3}",
    "call nap {\"ms\":3} \\",
    "call nap {\"ms\":4000}",
    "call ls {} \\",
];

/// What the client may send there, beside answers.
const INTERRUPTIONS: &[&str] = &[
    r#""type":"prompt","message":"Go""#,
    r#""type":"prompt","message":"Go""#,
    r#""type":"steer","message":"left""#,
    r#""type":"abort""#,
    r#""type":"abort_and_prompt","message":"Instead""#,
    r#""type":"new_session""#,
    r#""type":"set_approvals","mode":"ask""#,
    r#""type":"set_approvals","mode":"ask""#,
    r#""type":"set_approvals","mode":"read-only""#,
    r#""type":"get_state""#,
];

/// Plays a conversation that this seed decides. Returns how many prompts got a result.
pub fn play(seed: u64) -> Result<usize, String> {
    play_in(TRANSCRIPT, seed).map(|(results, _)| results)
}

/// The same with approvals. Returns how many calls the client has allowed.
pub fn play_with_approvals(seed: u64) -> Result<usize, String> {
    play_in(APPROVALS, seed).map(|(_, allowed)| allowed)
}

fn play_in(transcript: &str, seed: u64) -> Result<(usize, usize), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let has_approvals = transcript == APPROVALS;
    let transcript = Transcript::parse(transcript)?;
    let mut played = String::new();
    let random = Random::new(seed);
    let result = runtime.block_on(converse(&transcript, has_approvals, random, &mut played));
    result.map_err(|why| format!("seed {seed}: {why}\n{played}"))
}

async fn converse(
    transcript: &Transcript,
    has_approvals: bool,
    mut random: Random,
    played: &mut String,
) -> Result<(usize, usize), String> {
    let mut server = TestServer::start(transcript, Door::Direct)?;
    if has_approvals {
        server.guard(&["nap", "write"]);
    }
    server.ask_for_extras()?;
    server.settle(played).await?;
    for step in 0..CONVERSATION_STEPS {
        let group = if has_approvals {
            random.group_with_approvals(step, server.ui_requests())
        } else {
            random.group(step)
        };
        for line in &group {
            played.push_str(&line.text());
            played.push('\n');
        }
        // A script that does not fit the answer in progress changes nothing.
        server.take_leniently(&group)?;
        server.settle(played).await?;
    }
    let end = match random.below(3) {
        0 => Line::Signal("SIGTERM".to_owned()),
        _ => Line::Eof,
    };
    server.take(&[end])?;
    server.end(played).await
}

/// A small generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    /// One to three commands in one write, a line of the model, or a pause.
    fn group(&mut self, step: usize) -> Vec<Line> {
        match self.below(10) {
            0..5 => {
                let count = 1 + self.below(3);
                (0..count).map(|index| self.command(&format!("{step}-{index}"))).collect()
            }
            5..9 => vec![Line::Model(ANSWERS[self.below(ANSWERS.len())].to_owned())],
            _ => vec![Line::Clock(1 + self.below(3000) as u64)],
        }
    }

    /// Mostly answers to the newest question, sometimes to an older one.
    fn group_with_approvals(&mut self, step: usize, questions: usize) -> Vec<Line> {
        if step == 0 {
            return vec![Line::Client(
                r#"{"id":"first","type":"prompt","message":"Go"}"#.to_owned(),
            )];
        }
        match self.below(12) {
            0..6 if questions > 0 => {
                let back = if self.below(4) == 0 { self.below(questions) } else { 0 };
                let answer = DECISIONS[self.below(DECISIONS.len())];
                let id = questions - back;
                let answer =
                    format!(r#"{{"type":"extension_ui_response","id":"ui-{id}",{answer}}}"#);
                let mut group = vec![Line::Client(answer)];
                // An abort in the same write.
                if self.below(8) == 0 {
                    group.push(Line::Client(format!(r#"{{"id":"{step}","type":"abort"}}"#)));
                }
                group
            }
            0 | 6 | 7 => vec![self.command_of(INTERRUPTIONS, &step.to_string())],
            1..6 | 8..10 => vec![Line::Model(CALLS[self.below(CALLS.len())].to_owned())],
            _ => vec![Line::Clock(1 + self.below(3000) as u64)],
        }
    }

    fn command(&mut self, id: &str) -> Line {
        self.command_of(COMMANDS, id)
    }

    fn command_of(&mut self, commands: &[&str], id: &str) -> Line {
        let fields = commands[self.below(commands.len())];
        Line::Client(format!("{{\"id\":\"{id}\",{fields}}}"))
    }
}
