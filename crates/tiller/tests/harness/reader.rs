//! The client's reading end: reads output as soon as it is written, unless told to stop.

use std::sync::{Arc, Mutex};

use tiller_server::connection::ClientInput;
use tiller_server::out::Drain;
use tokio::sync::{mpsc, watch};

use super::door::Output;
use super::transcript::Reader;

pub struct ClientReader {
    mode: watch::Sender<Reader>,
    read: Arc<Mutex<Vec<u8>>>,
}

impl ClientReader {
    pub fn new(output: Output, control: mpsc::Sender<ClientInput>) -> ClientReader {
        let (mode, mode_receiver) = watch::channel(Reader::Reads);
        let read = Arc::new(Mutex::new(Vec::new()));
        match output {
            Output::Drain(drain) => {
                tokio::spawn(read_until_gone(drain, mode_receiver, read.clone(), control));
            }
            Output::Lines(mut lines) => {
                let read = read.clone();
                tokio::spawn(async move {
                    while let Some(line) = lines.recv().await {
                        read.lock().unwrap().extend(line);
                    }
                });
            }
        }
        ClientReader { mode, read }
    }

    pub fn is_gone(&self) -> bool {
        *self.mode.borrow() == Reader::Gone
    }

    pub fn change(&self, mode: Reader) {
        self.mode.send_replace(mode);
    }

    /// The bytes read since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.read.lock().unwrap())
    }
}

async fn read_until_gone(
    mut drain: Drain,
    mut mode: watch::Receiver<Reader>,
    read: Arc<Mutex<Vec<u8>>>,
    control: mpsc::Sender<ClientInput>,
) {
    while let Some(chunk) = drain.next().await {
        // The sender of the watch channel lives as long as the conversation.
        let Ok(now) = mode.wait_for(|mode| *mode != Reader::Stopped).await.map(|mode| *mode) else {
            return;
        };
        if now == Reader::Gone {
            control.send(ClientInput::OutputClosed).await.ok();
            return;
        }
        drain.wrote(chunk.len());
        read.lock().unwrap().extend(chunk);
    }
}
