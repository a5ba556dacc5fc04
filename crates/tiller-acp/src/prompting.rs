//! A prompt of the client, from its command to the answer of its request.

use agent_client_protocol_schema::v1::{Error, PromptResponse, RequestId, StopReason};
use tiller_agent::message::StopReason as AnswerEnd;
use tiller_protocol::{AssistantMessage, LimitName, PromptReason, PromptStatus};

use crate::json_rpc::internal;
use crate::link::Link;
use crate::prompt_content::PromptContent;

/// A prompt that waits for the one before it.
#[derive(Debug)]
pub(crate) struct QueuedPrompt {
    pub(crate) request: RequestId,
    pub(crate) content: PromptContent,
}

/// The prompt that a session works on.
#[derive(Debug)]
pub(crate) struct Prompting {
    pub(crate) request: RequestId,
    /// The id of the command.
    pub(crate) command: u64,
    /// The client has cancelled it: whatever happens, the answer is `cancelled`.
    pub(crate) is_cancelled: bool,
    /// How the newest answer of the model has ended.
    pub(crate) last_answer: Option<LastAnswer>,
    /// Its outcome, while the last updates are collected.
    pub(crate) outcome: Option<Result<StopReason, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LastAnswer {
    pub(crate) end: AnswerEnd,
    /// The model has refused.
    pub(crate) is_refusal: bool,
}

impl LastAnswer {
    pub(crate) fn new(message: &AssistantMessage<'_>) -> LastAnswer {
        LastAnswer {
            end: message.stop_reason,
            is_refusal: message.raw_stop_reason.as_deref() == Some("refusal"),
        }
    }
}

impl Prompting {
    pub(crate) fn new(request: RequestId, command: u64) -> Prompting {
        Prompting { request, command, is_cancelled: false, last_answer: None, outcome: None }
    }

    /// Whether it is known how it ends.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_cancelled || self.outcome.is_some()
    }

    pub(crate) fn answer_request(&self, link: &mut Link) {
        match self.answer() {
            Ok(answer) => link.answer(&self.request, &answer),
            Err(why) => link.refuse(&self.request, &why),
        }
    }

    fn answer(&self) -> Result<PromptResponse, Error> {
        match &self.outcome {
            _ if self.is_cancelled => Ok(PromptResponse::new(StopReason::Cancelled)),
            Some(Ok(reason)) => Ok(PromptResponse::new(*reason)),
            Some(Err(why)) => Err(internal(why.clone())),
            None => Ok(PromptResponse::new(StopReason::EndTurn)),
        }
    }
}

/// What became of a prompt, in the words of ACP. An error is a sentence.
pub(crate) fn outcome(
    status: PromptStatus,
    reason: Option<PromptReason>,
    last: Option<LastAnswer>,
    error: Option<&str>,
) -> Result<StopReason, String> {
    let is_refusal = last.is_some_and(|last| last.is_refusal);
    let is_cut = last.is_some_and(|last| last.end == AnswerEnd::Length);
    Ok(match status {
        PromptStatus::Error if is_refusal => StopReason::Refusal,
        PromptStatus::Error => {
            return Err(error.unwrap_or("the run failed").to_owned());
        }
        PromptStatus::Aborted | PromptStatus::Dropped => StopReason::Cancelled,
        PromptStatus::Limit => match reason {
            Some(PromptReason::Limit(LimitName::MaxTokens)) => StopReason::MaxTokens,
            _ => StopReason::MaxTurnRequests,
        },
        PromptStatus::Done if is_refusal => StopReason::Refusal,
        PromptStatus::Done if is_cut => StopReason::MaxTokens,
        PromptStatus::Done | PromptStatus::Handled => StopReason::EndTurn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_stop_reasons() {
        use PromptStatus::{Aborted, Done, Dropped, Error, Handled, Limit};
        let last = |end, is_refusal| Some(LastAnswer { end, is_refusal });
        let limit = |name| Some(PromptReason::Limit(name));
        for (status, reason, last, expected) in [
            (Done, None, last(AnswerEnd::Stop, false), Ok(StopReason::EndTurn)),
            (Done, None, last(AnswerEnd::Length, false), Ok(StopReason::MaxTokens)),
            (Done, None, last(AnswerEnd::Stop, true), Ok(StopReason::Refusal)),
            (Error, None, last(AnswerEnd::Error, true), Ok(StopReason::Refusal)),
            (Error, None, last(AnswerEnd::Error, false), Err("why".to_owned())),
            (Aborted, Some(PromptReason::Abort), None, Ok(StopReason::Cancelled)),
            (Dropped, Some(PromptReason::Cleared), None, Ok(StopReason::Cancelled)),
            (Limit, limit(LimitName::MaxTurns), None, Ok(StopReason::MaxTurnRequests)),
            (Limit, limit(LimitName::MaxTokens), None, Ok(StopReason::MaxTokens)),
            (Limit, limit(LimitName::MaxCost), None, Ok(StopReason::MaxTurnRequests)),
            (Handled, None, None, Ok(StopReason::EndTurn)),
        ] {
            assert_eq!(outcome(status, reason, last, Some("why")), expected, "{status:?}");
        }
    }

    #[test]
    fn cancelled_prompt_is_answered_as_cancelled_whatever_its_outcome() {
        let mut prompting = Prompting::new(RequestId::Number(1), 1);
        prompting.outcome = Some(Err("why".to_owned()));
        assert_eq!(prompting.answer().unwrap_err().message, "why");
        prompting.is_cancelled = true;
        assert_eq!(prompting.answer().unwrap().stop_reason, StopReason::Cancelled);
    }
}
