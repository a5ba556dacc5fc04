//! The signals that end the chat.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
    Interrupt,
    Terminate,
    HangUp,
}

impl EndSignal {
    /// 128 plus the signal's number.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            EndSignal::Interrupt => 130,
            EndSignal::Terminate => 143,
            EndSignal::HangUp => 129,
        }
    }
}

/// Signals that arrive from now on.
pub(super) fn end_signals() -> mpsc::UnboundedReceiver<EndSignal> {
    let (sender, signals) = mpsc::unbounded_channel();
    for (kind, name) in [
        (SignalKind::interrupt(), EndSignal::Interrupt),
        (SignalKind::terminate(), EndSignal::Terminate),
        (SignalKind::hangup(), EndSignal::HangUp),
    ] {
        // Without a handler the signal ends the process, as it should.
        let Ok(mut stream) = signal(kind) else { continue };
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(name).is_err() {
                    break;
                }
            }
        });
    }
    signals
}
