//! Servers that fall silent at every possible point. A run must not wait forever.

use super::*;

/// Serves up to some point, and then stays silent until the test is over.
struct Mute {
    url: String,
    _open: mpsc::Sender<()>,
}

impl Mute {
    fn after(serve_until: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Mute {
        let (_open, closed) = mpsc::channel::<()>();
        let closed = std::sync::Mutex::new(closed);
        let url = serve(move |mut connection| {
            serve_until(&mut connection);
            closed.lock().unwrap().recv().unwrap_err();
        });
        Mute { url, _open }
    }
}

async fn ask_impatiently(url: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let idle_timeout = Some(Duration::from_millis(1500));
    all(ask_with(url, RequestOptions { idle_timeout, ..RequestOptions::default() })).await
}

fn silence() -> Option<ProviderError> {
    Some(ProviderError::retry("timed out: nothing came from the server for 1.5 s"))
}

#[tokio::test]
async fn before_the_first_byte() {
    let mute = Mute::after(|connection| {
        read_request(connection).unwrap();
    });
    assert_eq!(ask_impatiently(&mute.url).await, (vec![], silence()));
}

#[tokio::test]
async fn before_the_answer() {
    let mute = Mute::after(|connection| {
        read_request(connection).unwrap();
        connection.write_all(OK.as_bytes()).unwrap();
    });
    assert_eq!(ask_impatiently(&mute.url).await, (vec![StreamEvent::Start], silence()));
}

#[tokio::test]
async fn in_the_middle() {
    let mute = Mute::after(|connection| {
        read_request(connection).unwrap();
        let half = [OK, &recording("anthropic_cut_off.sse")].concat();
        connection.write_all(half.as_bytes()).unwrap();
    });
    let (events, failure) = ask_impatiently(&mute.url).await;
    assert!(events.contains(&StreamEvent::TextDelta { index: 0, delta: "half ".into() }));
    assert_eq!(failure, silence());
}

/// The connect timeout is fixed, so this test uses a paused clock, which jumps to the next deadline
/// once all tasks are waiting.
#[tokio::test(start_paused = true)]
async fn before_the_connection_is_made() {
    let mute = Mute::after(|_| ());
    let asked = Instant::now();
    let answer = ask(&mute.url.replace("http:", "https:")).collect::<Vec<_>>().await;
    assert_eq!(answer, [Err(ProviderError::retry("Connection error."))]);
    assert_eq!(asked.elapsed().as_secs(), 30);
}
