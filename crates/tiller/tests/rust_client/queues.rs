//! Messages that wait for a run.

use tiller_client::protocol::{
    Disposition, Prompt, PromptReason, PromptStatus, QueuedTarget, TextAndImages, UpdateQueued,
    WhenBusy,
};
use tiller_client::{Client, Turn};

use crate::support::{Gate, Place, bounded, kinds};

/// A client whose run waits in the tool `gate`.
async fn start(place: &Place, gate: &Gate, script: &str) -> (Client, Turn) {
    let builder = place.scripted(&format!("call gate {{}}\n\n{script}"));
    let client = builder.tool(gate.tool()).start().await.unwrap();
    let turn = client.prompt("Go").await.unwrap();
    gate.entered().await;
    (client, turn)
}

#[test]
fn steering_message_gets_its_own_events() {
    let (place, gate) = (Place::new(), Gate::default());
    bounded(async {
        let script = "expect user \"Be brief\"\nsay Brief.\n";
        let (_client, mut turn) = start(&place, &gate, script).await;
        let mut steering = turn.steer("Be brief").await.unwrap();
        assert_eq!(steering.disposition(), Disposition::Queued);
        gate.open();
        assert_eq!(kinds(&mut steering).await[..2], ["message_start", "message_end"]);
        assert_eq!(steering.result().await.unwrap().check().unwrap().text, "Brief.");
        assert_eq!(turn.result().await.unwrap().check().unwrap().text, "Brief.");
    });
}

#[test]
fn follow_up_gets_only_its_own_events() {
    let (place, gate) = (Place::new(), Gate::default());
    bounded(async {
        let (_client, mut turn) = start(&place, &gate, "say First.\n\nsay Second.\n").await;
        let mut later = turn.follow_up("And then?").await.unwrap();
        gate.open();
        assert_eq!(turn.result().await.unwrap().text, "First.");
        assert_eq!(later.next_text().await.unwrap().as_deref(), Some("Second."));
        assert_eq!(later.result().await.unwrap().text, "Second.");
    });
}

#[test]
fn prompt_can_be_queued_while_busy() {
    let (place, gate) = (Place::new(), Gate::default());
    bounded(async {
        let (client, mut turn) = start(&place, &gate, "say First.\n\nsay Second.\n").await;
        let prompt = Prompt { when_busy: WhenBusy::FollowUp, ..Prompt::from("Then this") };
        let mut queued = client.prompt(prompt).await.unwrap();
        gate.open();
        assert_eq!(turn.result().await.unwrap().text, "First.");
        assert_eq!(queued.result().await.unwrap().text, "Second.");
    });
}

#[test]
fn queued_messages_can_be_read_changed_and_removed() {
    let (place, gate) = (Place::new(), Gate::default());
    bounded(async {
        let script = "expect user \"Better\"\nsay Done.\n";
        let (client, mut turn) = start(&place, &gate, script).await;
        let client_message_id = Some("one".to_owned());
        let message =
            TextAndImages { client_message_id: client_message_id.clone(), .."Good".into() };
        let mut one = client.steer(message).await.unwrap();
        assert_eq!(one.client_message_id(), "one");
        let mut two = client.follow_up("Never mind").await.unwrap();
        let queue = client.get_queue().await.unwrap().messages;
        let texts: Vec<&str> = queue.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["Good", "Never mind"]);

        let target = QueuedTarget { client_message_id, ..QueuedTarget::default() };
        let update = UpdateQueued { target, message: "Better".into(), images: Vec::new() };
        assert_eq!(client.update_queued(update).await.unwrap().message.text, "Better");
        two.abort().await.unwrap();
        let dropped = two.result().await.unwrap();
        assert_eq!(dropped.status, PromptStatus::Dropped);
        assert_eq!(dropped.reason, Some(PromptReason::Removed));
        gate.open();
        assert_eq!(turn.result().await.unwrap().check().unwrap().text, "Done.");
        one.result().await.unwrap().check().unwrap();
    });
}

#[test]
fn cleared_queue_drops_its_messages() {
    let (place, gate) = (Place::new(), Gate::default());
    bounded(async {
        let (client, mut turn) = start(&place, &gate, "say Done.\n").await;
        let mut queued = client.follow_up("Later").await.unwrap();
        assert_eq!(client.clear_queue().await.unwrap().follow_up, ["Later"]);
        assert_eq!(kinds(&mut queued).await, ["prompt_result"]);
        assert_eq!(queued.result().await.unwrap().reason, Some(PromptReason::Cleared));
        gate.open();
        turn.result().await.unwrap().check().unwrap();
    });
}
