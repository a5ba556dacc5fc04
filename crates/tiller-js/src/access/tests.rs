use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::event::NAMES;

fn named(needs: Permissions) -> String {
    let Permissions { fs, exec, net, env } = needs;
    let all = [(fs, "fs"), (exec, "exec"), (net, "net"), (env, "env")];
    let names: Vec<&str> = all.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// Rows of the table, grouped by the permissions they need.
fn table<'r>(rows: impl IntoIterator<Item = (&'r str, Permissions)>, expect: Expect) {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, needs) in rows {
        let needs = named(needs);
        match groups.iter_mut().find(|(known, _)| *known == needs) {
            Some((_, names)) => names.push(name),
            None => groups.push((needs, vec![name])),
        }
    }
    let lines = groups.iter().map(|(needs, names)| format!("{needs}: {}", names.join(", ")));
    expect.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_operation_has_a_row() {
    assert!(OPERATIONS.is_sorted_by(|(a, _), (b, _)| a < b));
    table(
        OPERATIONS.iter().copied(),
        expect![[r#"
            -: act, bus.emit, bus.hasListener, bus.listen, checkArguments, crypto.equal, crypto.hash, crypto.hmac, crypto.pbkdf2, crypto.random, dialog, hostInfo, log, lostGuards, model, modelEventsHandled, net.connect, net.listen, notice, os.info, os.memory, os.user, payloadResult, query, registered, request, session.project, settings, text.decode, text.encode, text.formatSize, text.fromBase64, text.frontMatter, text.modelText, text.partialJson, text.toBase64, text.toBase64Url, text.toHex, text.truncate, url.parse, url.set, zlib.deflate, zlib.deflateRaw, zlib.gunzip, zlib.gzip, zlib.inflate, zlib.inflateRaw, zlib.unzip
            exec: child.end, child.forget, child.kill, child.read, child.spawn, child.spawnSync, child.write, os.kill
            fs: fs.access, fs.chmod, fs.close, fs.copyFile, fs.cp, fs.exists, fs.fsync, fs.link, fs.lstat, fs.mkdir, fs.mkdtemp, fs.open, fs.read, fs.readFile, fs.readdir, fs.readlink, fs.realpath, fs.rename, fs.rm, fs.rmdir, fs.stat, fs.statfs, fs.symlink, fs.truncate, fs.unlink, fs.utimes, fs.write, fs.writeFile
            net: http.close, http.fetch, http.read, net.end, net.write"#]],
    );
}

/// Every operation that our JavaScript calls has a row; one without would be refused at run time.
#[test]
fn every_operation_that_javascript_calls_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("js");
    let mut folders = vec![root];
    let mut called = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for name in names_called(&text) {
                called += 1;
                assert!(operation(name).is_some(), "{}: {name} has no row", path.display());
            }
        }
    }
    assert!(called > 80, "{called}");
}

/// Names in `sync("…"` and `begin("…"`, and in `ask("…"` if they contain a dot: others are
/// requests.
fn names_called(text: &str) -> impl Iterator<Item = &str> {
    ["sync(\"", "begin(\"", "ask(\""].into_iter().flat_map(move |call| {
        let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
        names.filter(move |name| call != "ask(\"" || name.contains('.'))
    })
}

/// A new event has to be given permissions here.
#[test]
fn listeners_that_need_permissions() {
    let rows = NAMES.iter().map(|name| (*name, needs(Access::Listener(name))));
    table(
        rows,
        expect![[r#"
        -: session_start, session_info_changed, session_compact, session_compact_failed, session_tree, session_shutdown, agent_start, agent_end, agent_settled, turn_start, message_start, message_update, tool_execution_start, tool_execution_update, tool_execution_end, after_provider_response, model_select, thinking_level_select, ui_prompt_start, ui_prompt_end, session_before_switch, session_before_fork, session_before_compact, session_before_tree, input, before_agent_start, user_bash, message_end, tool_call, tool_result, turn_end, agent_before_settle, context, context_with_system, before_provider_request
        fs exec net env: project_trust
        fs: resources_discover
        env: before_provider_headers"#]],
    );
}

#[test]
fn tools_need_permissions_for_what_they_do() {
    let names = ["bash", "read", "write", "edit", "grep", "find", "ls", "another"];
    let rows = names.map(|name| (name, needs(Access::ToolCall(name))));
    table(
        rows,
        expect![[r#"
        exec: bash
        fs: read, write, edit, grep, find, ls
        fs exec net env: another"#]],
    );
}

#[test]
fn requests() {
    let rows = [
        json!({"type": "setModel", "model": {}}),
        json!({"type": "compact"}),
        json!({"type": "waitForIdle"}),
        json!({"type": "newSession"}),
        json!({"type": "fork", "entryId": "e"}),
        json!({"type": "navigateTree", "targetId": "e"}),
        json!({"type": "switchSession", "path": "p"}),
        json!({"type": "reload"}),
        json!({"type": "apiKeyAndHeaders", "model": {}}),
        json!({"type": "apiKey", "provider": "p"}),
        json!({"type": "refreshModels"}),
        json!({"type": "storedModels", "provider": "p"}),
        json!({"type": "storeModels", "provider": "p", "entry": null}),
        json!({"type": "beforeProviderRequest", "payload": {}}),
        json!({"type": "afterProviderResponse", "status": 200, "headers": {}}),
        json!({"type": "runTool", "name": "bash", "toolCallId": "", "arguments": {}, "cwd": "/"}),
    ];
    let needs = |row: &Value| needs(Access::Request(&serde_json::from_value(row.clone()).unwrap()));
    let rows = rows.iter().map(|row| (row["type"].as_str().unwrap(), needs(row)));
    table(
        rows,
        expect![[r#"
        net: setModel, refreshModels
        -: compact, waitForIdle, newSession, fork, navigateTree, reload, beforeProviderRequest, afterProviderResponse
        fs: switchSession, storedModels, storeModels
        env: apiKeyAndHeaders, apiKey
        exec: runTool"#]],
    );
}

#[test]
fn providers_need_permissions_for_their_configuration() {
    let rows = [
        ("models", json!({"models": [{"id": "m", "cost": {"input": 1}}]})),
        ("a plain key", json!({"apiKey": "k", "headers": {"x": "y"}})),
        ("a command as key", json!({"apiKey": "!cat auth.json"})),
        ("a command in a header of a model", json!({"models": [{"headers": {"x": "!env"}}]})),
        ("a variable in a header", json!({"headers": {"x": "$HOME"}})),
        ("a server", json!({"baseUrl": "http://127.0.0.1/"})),
        ("a server of a model", json!({"models": [{"baseUrl": "x"}]})),
        ("streams", json!({"streams": true})),
        ("a sign-in", json!({"hasOauth": true})),
    ];
    let rows = rows.map(|(name, config)| {
        let action = Action::RegisterProvider { name: "p".into(), config };
        (name, needs(Access::Action(&action)))
    });
    table(
        rows,
        expect![[r#"
        -: models, a plain key
        exec: a command as key, a command in a header of a model
        env: a variable in a header, a sign-in
        fs exec net env: a server, a server of a model, streams"#]],
    );
}

#[test]
fn other_accesses_need_permissions() {
    let credential = Query::Models(ModelRead::Credential { provider: "p".into() });
    let unregister = Action::UnregisterProvider { name: "p".into() };
    let rows = [
        ("a credential", Access::Query(&credential)),
        ("unregisterProvider", Access::Action(&unregister)),
        ("a model", Access::Model { server: Server::Known }),
        ("a model on another server", Access::Model { server: Server::Named }),
        ("a socket", Access::Socket(Socket::Network)),
        ("a Unix socket", Access::Socket(Socket::File)),
        ("a sign-in", Access::SignIn),
        ("a file of others as a module", Access::ForeignFile),
        ("a sidecar", Access::Sidecar),
        ("an operation that does not exist", Access::Operation("fs.unheard")),
    ];
    table(
        rows.map(|(name, access)| (name, needs(access))),
        expect![[r#"
        env: a credential, a sign-in
        net: unregisterProvider, a model, a socket
        net env: a model on another server
        fs net: a Unix socket
        fs: a file of others as a module
        fs exec net env: a sidecar, an operation that does not exist"#]],
    );
}

#[test]
fn one_missing_permission_denies_access() {
    let denied = |permissions: Permissions| {
        check(permissions, Access::Sidecar).err().map(|Denied { lacking }| lacking)
    };
    assert_eq!(denied(ALL), None);
    assert_eq!(denied(Permissions { env: false, ..ALL }).as_deref(), Some("env"));
    let two = Permissions { exec: false, env: false, ..ALL };
    assert_eq!(denied(two).as_deref(), Some("exec, env"));
}
