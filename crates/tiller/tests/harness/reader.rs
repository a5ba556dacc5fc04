//! The client's reading end: takes what tiller says as soon as it is said, unless told otherwise.

use std::sync::{Arc, Mutex};

use tiller::rpc::out::Drain;
use tiller::rpc::server::Input;
use tokio::sync::{mpsc, watch};

use super::transcript::Reader;

pub struct ReadingEnd {
    mood: watch::Sender<Reader>,
    read: Arc<Mutex<Vec<u8>>>,
}

impl ReadingEnd {
    pub fn new(drain: Drain, control: mpsc::Sender<Input>) -> ReadingEnd {
        let (mood, mood_receiver) = watch::channel(Reader::Reads);
        let read = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(keep_reading(drain, mood_receiver, read.clone(), control));
        ReadingEnd { mood, read }
    }

    pub fn is_gone(&self) -> bool {
        *self.mood.borrow() == Reader::Gone
    }

    pub fn change(&self, mood: Reader) {
        self.mood.send_replace(mood);
    }

    /// What was read since the last time.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.read.lock().unwrap())
    }
}

async fn keep_reading(
    mut drain: Drain,
    mut mood: watch::Receiver<Reader>,
    read: Arc<Mutex<Vec<u8>>>,
    control: mpsc::Sender<Input>,
) {
    while let Some(chunk) = drain.next().await {
        // The other side of the watch ends with the conversation.
        let Ok(now) = mood.wait_for(|mood| *mood != Reader::Stopped).await.map(|mood| *mood) else {
            return;
        };
        if now == Reader::Gone {
            control.send(Input::OutputClosed).await.ok();
            return;
        }
        drain.wrote(chunk.len());
        read.lock().unwrap().extend(chunk);
    }
}
