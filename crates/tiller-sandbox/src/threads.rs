//! The tools thread: it enters the sandbox once, and starts a thread for each piece of work. These
//! threads inherit the restrictions, which no thread can remove.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Ends when it is dropped. Work that has started goes on.
#[derive(Debug)]
pub(crate) struct ToolsThread {
    work: Sender<Work>,
}

impl ToolsThread {
    /// Starts the thread. Returns when it has entered the sandbox, or could not.
    pub(crate) fn start(
        enter: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<ToolsThread> {
        let (work, received) = channel::<Work>();
        let (entered, result) = channel();
        let run = move || {
            let is_inside = enter();
            let goes_on = is_inside.is_ok();
            // The starter waits for it.
            entered.send(is_inside).ok();
            while goes_on && let Ok(work) = received.recv() {
                // If there is no thread, the work is dropped, which its caller notices.
                thread::Builder::new().name("tool".to_owned()).spawn(work).ok();
            }
        };
        thread::Builder::new().name("tools".to_owned()).spawn(run)?;
        let is_inside =
            result.recv().map_err(|_| io::Error::other("the tools thread has ended"))?;
        is_inside.map(|()| ToolsThread { work })
    }

    pub(crate) fn run(&self, work: Work) {
        // The thread ends with this sender, not before.
        self.work.send(work).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_after_the_thread_has_entered() {
        let thread = ToolsThread::start(|| Ok(())).unwrap();
        let (sender, receiver) = channel();
        for number in 0..3 {
            let sender = sender.clone();
            thread.run(Box::new(move || sender.send(number).unwrap()));
        }
        let mut numbers: Vec<i32> = receiver.iter().take(3).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
    }

    #[test]
    fn thread_that_cannot_enter_is_not_used() {
        let refused = ToolsThread::start(|| Err(io::Error::other("no")));
        assert_eq!(refused.unwrap_err().to_string(), "no");
    }
}
