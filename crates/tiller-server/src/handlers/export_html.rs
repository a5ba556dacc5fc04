//! `export_html`: the session as an HTML page.

use std::path::Path;

use tiller_export::{Export, IN_MEMORY, NOTHING_YET, Setting};
use tiller_protocol::data::ExportData;
use tiller_protocol::{Label, Level, Reply};

use crate::dispatch::{Handled, Response};
use crate::state::SessionState;
use crate::{project_state, tools};

/// The page is made from what is stored, on another thread: later messages are not in it.
pub(crate) fn export_html(
    state: &mut SessionState,
    label: &Label,
    level: Level,
    output_path: Option<&Path>,
) -> Handled {
    let session = state.session.conversation().session();
    let source = match session.path() {
        None => return Err(IN_MEMORY.to_owned()),
        Some(_) if !session.is_stored() => return Err(NOTHING_YET.to_owned()),
        Some(location) => state.session.store().export_source(location.to_owned()),
    };
    let setting = Setting {
        system: project_state::system_prompt(state),
        tools: tools::offered(state).specs(),
    };
    let export = Export {
        to: Export::output_path(&source, output_path, level.file_prefix(), state.workspace.cwd()),
        source,
        secrets: state.models.registry().secrets(),
        windows: state.models.registry().context_windows(),
        setting: Some(setting),
    };
    state.respond_from_thread(label.clone(), move || {
        export.run()?;
        Ok(Reply::data(&ExportData { path: export.to }))
    });
    Ok(Response::Later)
}
