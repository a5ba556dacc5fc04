//! The channel into an engine's thread, and the clock the thread waits by.
//!
//! With [`EngineClock::Runtime`] the clock of a paused runtime stands still while a message is
//! queued or being handled: each message keeps a blocking task open, and a paused runtime does not
//! advance its clock meanwhile. So a test that waits until everything is idle waits for engines
//! too.

use std::cell::RefCell;
use std::sync::mpsc::{self, RecvTimeoutError};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::config::{Config, EngineClock};
use crate::engine_handle::Message;

/// The sending end.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: mpsc::Sender<(Message, Hold)>,
    /// Set if messages hold the runtime's clock.
    runtime: Option<Handle>,
}

/// The receiving end.
pub(crate) struct Inbox {
    receiver: mpsc::Receiver<(Message, Hold)>,
    /// The hold of the message being handled.
    hold: RefCell<Hold>,
    mailbox: Mailbox,
}

/// Dropping the sender ends the task that holds the clock.
type Hold = Option<mpsc::Sender<()>>;

/// The thread is gone.
#[derive(Debug)]
pub(crate) struct Gone;

pub(crate) fn mailbox(config: &Config) -> (Mailbox, Inbox) {
    let (sender, receiver) = mpsc::channel();
    let runtime = match config.clock {
        EngineClock::Wall => None,
        EngineClock::Runtime => Some(config.runtime.clone()),
    };
    let mailbox = Mailbox { sender, runtime };
    let inbox = Inbox { receiver, hold: RefCell::default(), mailbox: mailbox.clone() };
    (mailbox, inbox)
}

impl Mailbox {
    pub(crate) fn send(&self, message: Message) -> Result<(), Gone> {
        let hold = self.runtime.as_ref().map(|runtime| {
            let (hold, released) = mpsc::channel::<()>();
            // `recv` fails when the hold is dropped.
            runtime.spawn_blocking(move || released.recv().ok());
            hold
        });
        self.sender.send((message, hold)).map_err(|_| Gone)
    }
}

impl Inbox {
    /// The next message. Releases the hold of the previous one.
    pub(crate) fn recv(&self) -> Result<Message, Gone> {
        self.hold.take();
        let (message, hold) = self.receiver.recv().map_err(|_| Gone)?;
        self.hold.replace(hold);
        Ok(message)
    }

    /// The next message, or `None` if none arrives before `due`.
    pub(crate) fn recv_until(&self, due: Instant) -> Result<Option<Message>, Gone> {
        if let Some(runtime) = &self.mailbox.runtime {
            let mailbox = self.mailbox.clone();
            let alarm = runtime.spawn(async move {
                tokio::time::sleep_until(due).await;
                // A thread that is gone needs no wake-up.
                mailbox.send(Message::Wake).ok();
            });
            let message = self.recv();
            alarm.abort();
            return message.map(Some);
        }
        let pause = due.saturating_duration_since(Instant::now());
        match self.receiver.recv_timeout(pause) {
            Ok((message, _)) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }
}
