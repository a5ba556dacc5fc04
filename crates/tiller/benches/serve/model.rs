//! A model on the loopback: an HTTP server that answers each request of the chat completions API
//! with the same number of chunks. The answers begin together, when all requests have come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, watch};

/// The bytes of text in a chunk.
pub const CHUNK_BYTES: usize = 20;

pub struct LoopbackModel {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    round: watch::Sender<Round>,
    arrived: AtomicUsize,
    /// When the answers of this plan began.
    begun: watch::Sender<Option<Instant>>,
}

/// How the next requests are answered.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The answers begin when so many requests have come.
    pub requests: usize,
    pub chunks: usize,
    /// From the beginning of one chunk to that of the next. Zero: all answers send a chunk, then
    /// all send the next, without a pause.
    pub pace: Duration,
}

/// The answers that begin together.
#[derive(Clone)]
struct Round {
    plan: Plan,
    /// Keeps answers without a pace in step, so that the model favours none of them.
    step: Arc<Barrier>,
}

impl Round {
    fn new(plan: Plan) -> Round {
        Round { plan, step: Arc::new(Barrier::new(plan.requests)) }
    }
}

impl LoopbackModel {
    pub async fn start() -> LoopbackModel {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let plan = Plan { requests: 1, chunks: 1, pace: Duration::ZERO };
        let shared = Arc::new(Shared {
            round: watch::Sender::new(Round::new(plan)),
            arrived: AtomicUsize::new(0),
            begun: watch::Sender::new(None),
        });
        let model = LoopbackModel { port, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).ok();
                let shared = shared.clone();
                // The client closes its connections.
                tokio::spawn(async move { shared.serve(stream).await.ok() });
            }
        });
        model
    }

    /// Answers the next requests by this plan.
    pub fn expect(&self, plan: Plan) {
        self.shared.begun.send_replace(None);
        self.shared.arrived.store(0, Ordering::SeqCst);
        self.shared.round.send_replace(Round::new(plan));
    }

    /// Waits until all requests have come. Returns when the answers began.
    pub async fn begun(&self) -> Instant {
        let mut begun = self.shared.begun.subscribe();
        let instant = *begun.wait_for(Option::is_some).await.expect("the model lives");
        instant.expect("it was waited for")
    }
}

impl Shared {
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while read_request(&mut stream).await? {
            let round = self.round.borrow().clone();
            let mut begun = self.begun.subscribe();
            let number = self.arrived.fetch_add(1, Ordering::SeqCst) + 1;
            if number == round.plan.requests {
                self.begun.send_replace(Some(Instant::now()));
            }
            begun.wait_for(Option::is_some).await.ok();
            answer(stream.get_mut(), &round, number).await?;
        }
        Ok(())
    }
}

/// Reads a request with its body. False: the client has closed the connection.
async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<bool> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(false);
        }
        let header = line.trim_end().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(true)
}

async fn answer(stream: &mut TcpStream, round: &Round, number: usize) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let Round { plan, step } = round;
    let mut ticks = (!plan.pace.is_zero()).then(|| tokio::time::interval(plan.pace));
    for chunk in 0..plan.chunks {
        match &mut ticks {
            Some(ticks) => {
                ticks.tick().await;
            }
            None => {
                step.wait().await;
            }
        }
        let text = format!("{chunk:08} of {number:08}");
        assert_eq!(text.len(), CHUNK_BYTES);
        let event = format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
        );
        send(stream, &event).await?;
    }
    let end = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\
               \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    send(stream, end).await?;
    stream.write_all(b"0\r\n\r\n").await
}

async fn send(stream: &mut TcpStream, event: &str) -> std::io::Result<()> {
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    stream.write_all(chunk.as_bytes()).await
}
