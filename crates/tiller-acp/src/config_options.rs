//! The options of a session that the user can choose: the model, the thinking level, and which tool
//! calls the user is asked about.

use agent_client_protocol_schema::v1::{
    Error, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionConfigSelect, SessionConfigSelectOption,
};
use tiller_protocol::data::StateData;
use tiller_protocol::{
    ApprovalMode, Command, Model, SetApprovals, SetModel, SetThinkingLevel, ThinkingLevel,
};

use crate::json_rpc::invalid_params;

/// An option, by the id that the client uses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OptionId {
    Model,
    ThinkingLevel,
    Approvals,
}

impl OptionId {
    fn read(id: &str) -> Option<OptionId> {
        let all = [OptionId::Model, OptionId::ThinkingLevel, OptionId::Approvals];
        all.into_iter().find(|option| option.name() == id)
    }

    fn name(self) -> &'static str {
        match self {
            OptionId::Model => "model",
            OptionId::ThinkingLevel => "thinking_level",
            OptionId::Approvals => "approvals",
        }
    }
}

/// What can be chosen in a session, and what is.
#[derive(Debug)]
pub(crate) struct ConfigOptions {
    models: Vec<ModelChoice>,
    model: Option<ModelChoice>,
    levels: Vec<ThinkingLevel>,
    level: ThinkingLevel,
    approvals: ApprovalMode,
}

#[derive(Clone, Debug, PartialEq)]
struct ModelChoice {
    provider: String,
    id: String,
    name: String,
}

impl ModelChoice {
    fn new(model: &Model) -> ModelChoice {
        let Model { provider, id, name, .. } = model;
        ModelChoice { provider: provider.clone(), id: id.clone(), name: name.clone() }
    }

    /// `provider/id`.
    fn value(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

impl ConfigOptions {
    pub(crate) fn new(state: &StateData<'_>) -> ConfigOptions {
        let mut options = ConfigOptions {
            models: Vec::new(),
            model: None,
            levels: Vec::new(),
            level: state.thinking_level,
            approvals: ApprovalMode::Off,
        };
        options.set_state(state);
        options
    }

    /// Takes over the model, the level and the approvals. Returns whether it is another model.
    pub(crate) fn set_state(&mut self, state: &StateData<'_>) -> bool {
        // Without a model, a state has a placeholder.
        let model = state.model.as_deref().filter(|model| model.provider != "unknown");
        let model = model.map(ModelChoice::new);
        self.level = state.thinking_level;
        // A state leaves out the mode `off`.
        self.approvals = state.approvals.unwrap_or(ApprovalMode::Off);
        std::mem::replace(&mut self.model, model.clone()) != model
    }

    pub(crate) fn set_models<'a>(&mut self, models: impl IntoIterator<Item = &'a Model>) {
        self.models = models.into_iter().map(ModelChoice::new).collect();
    }

    pub(crate) fn set_levels(&mut self, levels: Vec<ThinkingLevel>) {
        self.levels = levels;
    }

    /// Whether no request could be sent: there is no model, and none to choose.
    pub(crate) fn has_no_model(&self) -> bool {
        self.model.is_none() && self.models.is_empty()
    }

    /// The options for the client. An option with nothing to choose is left out.
    pub(crate) fn options(&self) -> Vec<SessionConfigOption> {
        let approvals = Some(self.approvals_option());
        [self.model_option(), self.level_option(), approvals].into_iter().flatten().collect()
    }

    fn model_option(&self) -> Option<SessionConfigOption> {
        let current = self.model.as_ref()?;
        // A model without an account, such as the demo, is not in the list.
        let own =
            (!self.models.iter().any(|model| model.value() == current.value())).then_some(current);
        let choice = |model: &ModelChoice| {
            SessionConfigSelectOption::new(model.value(), model.name.clone())
                .description(model.value())
        };
        let choices: Vec<_> = own.into_iter().chain(&self.models).map(choice).collect();
        let select = SessionConfigSelect::new(current.value(), choices);
        Some(
            SessionConfigOption::new(
                OptionId::Model.name(),
                "Model",
                SessionConfigKind::Select(select),
            )
            .category(SessionConfigOptionCategory::Model),
        )
    }

    fn level_option(&self) -> Option<SessionConfigOption> {
        if self.levels.len() < 2 {
            return None;
        }
        let choice = |level: &ThinkingLevel| {
            let name = level.name();
            let title = name[..1].to_uppercase() + &name[1..];
            SessionConfigSelectOption::new(name, title)
        };
        let choices: Vec<_> = self.levels.iter().map(choice).collect();
        let select = SessionConfigSelect::new(self.level.name(), choices);
        Some(
            SessionConfigOption::new(
                OptionId::ThinkingLevel.name(),
                "Thinking",
                SessionConfigKind::Select(select),
            )
            .category(SessionConfigOptionCategory::ThoughtLevel),
        )
    }

    fn approvals_option(&self) -> SessionConfigOption {
        let choice = |mode: ApprovalMode| {
            let (title, description) = match mode {
                ApprovalMode::Off => ("Off", "Tools run without a question"),
                ApprovalMode::Edits => {
                    ("Edits allowed", "Asks about all but files in the working directory")
                }
                ApprovalMode::Ask => ("Ask", "Asks before everything that may change something"),
                ApprovalMode::ReadOnly => ("Read only", "Refuses what may change something"),
            };
            SessionConfigSelectOption::new(mode.name(), title).description(description.to_owned())
        };
        let choices: Vec<_> = ApprovalMode::ALL.into_iter().map(choice).collect();
        let select = SessionConfigSelect::new(self.approvals.name(), choices);
        SessionConfigOption::new(
            OptionId::Approvals.name(),
            "Approvals",
            SessionConfigKind::Select(select),
        )
        .category(SessionConfigOptionCategory::Mode)
    }

    /// The command that sets an option.
    pub(crate) fn command(
        &self,
        id: &str,
        value: &SessionConfigOptionValue,
    ) -> Result<Command, Error> {
        let Some(option) = OptionId::read(id) else {
            return Err(invalid_params(format!("there is no option {id:?}")));
        };
        let SessionConfigOptionValue::ValueId { value } = value else {
            return Err(invalid_params(format!("the option {id:?} needs a value of its list")));
        };
        let unknown = || invalid_params(format!("the option {id:?} has no value {:?}", &*value.0));
        match option {
            OptionId::Model => {
                let mut all = self.models.iter().chain(&self.model);
                let model = all.find(|model| *model.value() == *value.0).ok_or_else(unknown)?;
                let (provider, model_id) = (model.provider.clone(), model.id.clone());
                Ok(Command::SetModel(SetModel { provider, model_id }))
            }
            OptionId::ThinkingLevel => {
                let mut all = self.levels.iter().copied();
                let level = all.find(|level| level.name() == &*value.0).ok_or_else(unknown)?;
                Ok(Command::SetThinkingLevel(SetThinkingLevel { level }))
            }
            OptionId::Approvals => {
                let mut all = ApprovalMode::ALL.into_iter();
                let mode = all.find(|mode| mode.name() == &*value.0).ok_or_else(unknown)?;
                Ok(Command::SetApprovals(SetApprovals { mode }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn choice(provider: &str, id: &str) -> ModelChoice {
        ModelChoice { provider: provider.into(), id: id.into(), name: id.to_uppercase() }
    }

    fn options() -> ConfigOptions {
        ConfigOptions {
            models: vec![choice("a", "one"), choice("b", "two/x")],
            model: Some(choice("tiller", "demo")),
            levels: vec![ThinkingLevel::Off, ThinkingLevel::High],
            level: ThinkingLevel::High,
            approvals: ApprovalMode::Ask,
        }
    }

    #[test]
    fn options_list_what_can_be_chosen() {
        expect![[r#"[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"tiller/demo","options":[{"value":"tiller/demo","name":"DEMO","description":"tiller/demo"},{"value":"a/one","name":"ONE","description":"a/one"},{"value":"b/two/x","name":"TWO/X","description":"b/two/x"}]},{"id":"thinking_level","name":"Thinking","category":"thought_level","type":"select","currentValue":"high","options":[{"value":"off","name":"Off"},{"value":"high","name":"High"}]},{"id":"approvals","name":"Approvals","category":"mode","type":"select","currentValue":"ask","options":[{"value":"off","name":"Off","description":"Tools run without a question"},{"value":"edits","name":"Edits allowed","description":"Asks about all but files in the working directory"},{"value":"ask","name":"Ask","description":"Asks before everything that may change something"},{"value":"read-only","name":"Read only","description":"Refuses what may change something"}]}]"#]]
            .assert_eq(&serde_json::to_string(&options().options()).unwrap());
        let (models, model) = (Vec::new(), None);
        let levels = vec![ThinkingLevel::Off];
        let (level, approvals) = (ThinkingLevel::Off, ApprovalMode::Off);
        let without_choice = ConfigOptions { models, model, levels, level, approvals };
        let names: Vec<String> =
            without_choice.options().iter().map(|option| option.name.clone()).collect();
        assert_eq!(names, ["Approvals"]);
        assert!(without_choice.has_no_model());
    }

    #[test]
    fn value_of_an_option_becomes_a_command() {
        let command = |id: &str, value: &str| {
            let value = SessionConfigOptionValue::from(value);
            let command = options().command(id, &value);
            command.map_or_else(|error| error.message, |command| command.to_line(None))
        };
        expect![[r#"{"type":"set_model","provider":"b","modelId":"two/x"}"#]]
            .assert_eq(&command("model", "b/two/x"));
        expect![[r#"{"type":"set_thinking_level","level":"off"}"#]]
            .assert_eq(&command("thinking_level", "off"));
        expect![[r#"{"type":"set_approvals","mode":"read-only"}"#]]
            .assert_eq(&command("approvals", "read-only"));
        expect![[r#"the option "thinking_level" has no value "low""#]]
            .assert_eq(&command("thinking_level", "low"));
        expect![[r#"the option "model" has no value "c""#]].assert_eq(&command("model", "c"));
        expect![[r#"there is no option "mode""#]].assert_eq(&command("mode", "x"));
        let yes = options().command("model", &SessionConfigOptionValue::from(true));
        expect![[r#"the option "model" needs a value of its list"#]]
            .assert_eq(&yes.unwrap_err().message);
    }
}
