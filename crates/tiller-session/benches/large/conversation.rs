//! Writes the file of a large session.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tiller_session::{NewSession, Session, SessionId, Storage};

const NOW: u64 = 1_794_775_156_762;

/// One long conversation: question, tool call, result, answer, repeated. Returns the bytes of the
/// file.
pub fn generate(path: &Path, entries: usize, bytes: usize) -> io::Result<u64> {
    let begun = Session::new(
        NewSession {
            id: SessionId::fresh(),
            cwd: "/home/me/project".into(),
            parent_session: None,
            now: NOW,
        },
        Storage::Memory,
    );
    let mut out = BufWriter::new(File::create(path)?);
    let header = begun.header();
    writeln!(
        out,
        r#"{{"type":"session","version":3,"id":"{}","timestamp":"{}","cwd":"{}"}}"#,
        header.id, header.timestamp, header.cwd
    )?;
    const FILLER: &str = "The quick brown fox jumps over the lazy dog, reads, edits and tests.\\n";
    const USAGE: &str = r#""usage":{"input":120,"output":40,"cacheRead":1000,"cacheWrite":60,"totalTokens":1220,"cost":{"input":0.00036,"output":0.0006,"cacheRead":0.0003,"cacheWrite":0.000225,"total":0.001485}}"#;
    const MODEL: &str = r#""api":"anthropic-messages","provider":"mock","model":"mock-1""#;
    // The average size of a line apart from its text.
    let text = FILLER.repeat((bytes / entries).saturating_sub(330) / FILLER.len() + 1);
    for at in 0..entries {
        let message = match at % 4 {
            0 => format!(
                r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":{NOW}}}"#
            ),
            1 => format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}},{{"type":"toolCall","id":"call_{at}","name":"read","arguments":{{"path":"src/{at}.rs"}}}}],{MODEL},{USAGE},"stopReason":"toolUse","timestamp":{NOW}}}"#
            ),
            2 => format!(
                r#"{{"role":"toolResult","toolCallId":"call_{}","toolName":"read","content":[{{"type":"text","text":"{text}"}}],"isError":false,"timestamp":{NOW}}}"#,
                at - 1
            ),
            _ => format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],{MODEL},{USAGE},"stopReason":"stop","timestamp":{NOW}}}"#
            ),
        };
        let parent = match at {
            0 => "null".to_owned(),
            _ => format!("\"{:08x}\"", at - 1),
        };
        writeln!(
            out,
            r#"{{"type":"message","id":"{at:08x}","parentId":{parent},"timestamp":"2026-11-15T20:39:16.762Z","message":{message}}}"#
        )?;
    }
    out.flush()?;
    Ok(fs::metadata(path)?.len())
}
