//! Random conversations: whatever a client, a model and the system do, every accepted prompt gets
//! exactly one result, and all other laws hold.

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

/// Plays a conversation that this seed decides. Returns how many prompts got a result.
pub fn play(seed: u64) -> Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let transcript = Transcript::parse(TRANSCRIPT)?;
    let mut played = String::new();
    let result = runtime.block_on(converse(&transcript, Random::new(seed), &mut played));
    result.map_err(|why| format!("seed {seed}: {why}\n{played}"))
}

async fn converse(
    transcript: &Transcript,
    mut random: Random,
    played: &mut String,
) -> Result<usize, String> {
    let mut server = TestServer::start(transcript, Door::Direct)?;
    server.ask_for_extras()?;
    server.settle(played).await?;
    for step in 0..CONVERSATION_STEPS {
        let group = random.group(step);
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

    fn command(&mut self, id: &str) -> Line {
        let fields = COMMANDS[self.below(COMMANDS.len())];
        Line::Client(format!("{{\"id\":\"{id}\",{fields}}}"))
    }
}
