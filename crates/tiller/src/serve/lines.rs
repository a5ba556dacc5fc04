//! A client that reads and writes lines of JSON, on a socket.

use std::io;
use std::sync::Arc;

use tiller_server::ClientInputs;
use tiller_server::connection::ClientInput;
use tiller_server::lines::{LINE_MAX_BYTES, Lines};
use tiller_server::out::OutputQueue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// Passes lines between a client and its task in the router, until the output has ended or the
/// client is gone.
pub async fn serve_lines(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Unpin,
    inputs: ClientInputs,
    output: Arc<OutputQueue>,
) {
    let reader = tokio::spawn(async move { read_lines(read, inputs).await });
    let written = write_chunks(write, &output).await;
    if written.is_err() {
        // The client reads nothing more; its task ends with its input.
        output.close();
    }
    reader.abort();
}

/// An error ends the input as its end does: no client is left that could be told.
async fn read_lines(mut read: impl AsyncRead + Unpin, inputs: ClientInputs) {
    let mut lines = Lines::new(LINE_MAX_BYTES);
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count) = read.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let mut complete = Vec::new();
        lines.push(&buffer[..count], |line| complete.push(line));
        if !complete.is_empty() && !inputs.send(ClientInput::Lines(complete)).await {
            return;
        }
    }
    if let Some(line) = lines.finish() {
        inputs.send(ClientInput::Lines(vec![line])).await;
    }
    inputs.send(ClientInput::EndOfInput).await;
}

async fn write_chunks(mut write: impl AsyncWrite + Unpin, output: &OutputQueue) -> io::Result<()> {
    while let Some(chunk) = output.next().await {
        write.write_all(chunk.bytes()).await?;
        chunk.written();
    }
    write.shutdown().await
}
