//! The prompts of a session: one runs, the others wait.

use agent_client_protocol_schema::v1::{ErrorCode, PromptResponse, RequestId, StopReason};
use tiller_protocol::data::{IntegrationsData, ModelConnectionState};
use tiller_protocol::{Command, Prompt, Response, WhenBusy};

use super::{Awaited, Session, Step};
use crate::json_rpc::{error, internal};
use crate::link::{Expected, Link};
use crate::prompt_content::PromptContent;
use crate::prompting::{Prompting, QueuedPrompt};
use crate::updates;

/// How many bytes of prompts may wait in a session.
const QUEUE_MAX_BYTES: usize = 64 << 20;
/// How many prompts may wait.
const QUEUE_MAX: usize = 1_000;
/// The client's own name of a prompt, by which its message is known to be the client's.
const OWN_MESSAGE: &str = "acp";

impl Session {
    /// `session/prompt`. It waits while another prompt runs.
    pub(crate) fn prompt(&mut self, request: RequestId, content: PromptContent, link: &mut Link) {
        let waiting: usize = self.queue.iter().map(|queued| queued.content.bytes()).sum();
        if self.queue.len() >= QUEUE_MAX || waiting + content.bytes() > QUEUE_MAX_BYTES {
            let why = "too many prompts wait for this session; send this one again when some are \
                       answered";
            return link.refuse(&request, &internal(why));
        }
        self.queue.push_back(QueuedPrompt { request, content });
        if matches!(self.step, Step::Idle) {
            self.start_next(link);
        }
    }

    pub(super) fn start_next(&mut self, link: &mut Link) {
        let Some(QueuedPrompt { request, content }) = self.queue.pop_front() else { return };
        self.show_title(&content.text, link);
        let prompt = Command::Prompt(Prompt {
            message: content.text,
            images: content.images,
            // An extension may have started a run.
            when_busy: WhenBusy::FollowUp,
            client_message_id: Some(OWN_MESSAGE.to_owned()),
        });
        let command = self.command(&prompt, Awaited::Prompt, link);
        self.step = Step::Prompting(Prompting::new(request, command));
    }

    /// A session without a name has the beginning of its first message for a title.
    fn show_title(&mut self, message: &str, link: &mut Link) {
        let title = updates::title_of(message).filter(|_| !message.starts_with('/'));
        if let Some(title) = title.filter(|_| !self.has_title) {
            self.has_title = true;
            self.update(updates::session_info(Some(&title)), link);
        }
    }

    /// A prompt was refused. Without a key, the client may offer to authenticate.
    pub(super) fn refuse_prompt(&mut self, why: String, response: &Response<'_>, link: &mut Link) {
        let Step::Prompting(prompting) = &self.step else { return };
        let connection = response.read::<IntegrationsData<'static>>().ok();
        let state = connection.map(|data| data.model.state);
        let lacks_key = state.is_some_and(|state| state != ModelConnectionState::Connected);
        let request = prompting.request.clone();
        if prompting.is_cancelled {
            link.answer(&request, &PromptResponse::new(StopReason::Cancelled));
        } else if lacks_key {
            link.refuse(&request, &error(ErrorCode::AuthRequired, why));
        } else {
            link.refuse(&request, &internal(why));
        }
        self.step = Step::Idle;
        self.start_next(link);
    }

    /// The prompt has its outcome, and the client has all of its updates.
    pub(super) fn answer_prompt(&mut self, link: &mut Link) {
        let Step::Prompting(prompting) = &self.step else { return };
        prompting.answer_request(link);
        self.step = Step::Idle;
        self.start_next(link);
    }

    /// `session/cancel`: the prompt that runs and all that wait are answered as cancelled.
    pub(crate) fn cancel(&mut self, link: &mut Link) {
        for QueuedPrompt { request, .. } in std::mem::take(&mut self.queue) {
            link.answer(&request, &PromptResponse::new(StopReason::Cancelled));
        }
        if matches!(self.step, Step::Idle) {
            // A run that an extension has started.
            self.questions.cancel(&self.handle, link);
            link.command(Some(&self.handle), &Command::Abort, Expected::Ignored);
        }
        self.abort_prompt(link);
    }

    pub(super) fn abort_prompt(&mut self, link: &mut Link) {
        let Step::Prompting(prompting) = &mut self.step else { return };
        if std::mem::replace(&mut prompting.is_cancelled, true) {
            return;
        }
        self.questions.cancel(&self.handle, link);
        // If an extension's run was in the way, the prompt is still in the queue.
        link.command(Some(&self.handle), &Command::ClearQueue, Expected::Ignored);
        link.command(Some(&self.handle), &Command::Abort, Expected::Ignored);
    }
}
