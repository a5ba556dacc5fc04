//! Transforms one file of an extension into JavaScript: removes types and lists imports and
//! exports.

use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Declaration, ImportDeclarationSpecifier, Program, Statement, VariableDeclaration,
};
use oxc::codegen::{Codegen, CodegenOptions, CodegenReturn};
use oxc::diagnostics::Diagnostics;
use oxc::parser::{ParseOptions, Parser};
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::span::SourceType;
use oxc::transformer::{TransformOptions, Transformer};

use super::{commonjs, depth};

/// A transformed file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Unit {
    pub code: String,
    /// Whether it is a CommonJS script rather than a module.
    pub is_script: bool,
    pub imports: Vec<Import>,
    /// Exported names, including `default`; of a script, those that its source shows.
    pub exports: Vec<String>,
    /// The modules in `export * from`, or that a script re-exports.
    pub stars: Vec<String>,
}

/// All names that a module imports from one other module.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Import {
    pub from: String,
    pub names: Vec<String>,
    /// Imports the whole namespace.
    pub whole: bool,
}

/// Names that exist in a script's scope. A module may use them by mistake.
const SCRIPT_NAMES: [&str; 3] = ["require", "__filename", "__dirname"];

/// Transforms `source`. `is_module` is what the file extension or `package.json` says about a file
/// whose syntax does not show whether it is a module.
pub(crate) fn transform(
    path: &Path,
    source: &str,
    is_module: Option<bool>,
) -> Result<Unit, String> {
    with_large_stack(path, source, || transform_here(path, source, is_module))?
}

/// Sources up to this depth are parsed on the current thread.
const SHALLOW: usize = 100;
/// Stack size for the deepest source that is allowed, in debug builds too. Only touched pages use
/// memory.
const LARGE_STACK_BYTES: usize = 512 << 20;

/// Parses on a thread with a large stack, because the parser recurses.
fn with_large_stack<R: Send>(
    path: &Path,
    source: &str,
    work: impl FnOnce() -> R + Send,
) -> Result<R, String> {
    if depth::check(path, source)? <= SHALLOW {
        return Ok(work());
    }
    let failed = |why: String| format!("{}: cannot be read: {why}", path.display());
    std::thread::scope(|scope| {
        let builder =
            std::thread::Builder::new().name("parser".into()).stack_size(LARGE_STACK_BYTES);
        let parser = builder.spawn_scoped(scope, work).map_err(|err| failed(err.to_string()))?;
        parser.join().map_err(|_| failed("the parser failed".to_owned()))
    })
}

fn transform_here(path: &Path, source: &str, is_module: Option<bool>) -> Result<Unit, String> {
    let allocator = Allocator::default();
    let mut parsed = parse(&allocator, path, source, is_module)?;
    let typed = needs_printing(&parsed.program);
    let mut unit = Unit { is_script: parsed.is_script, ..Unit::default() };
    let mut free = Vec::new();
    if typed {
        let scoping = transform_program(&allocator, path, source, &mut parsed.program)?;
        free = free_names(&scoping);
        unit.code = Codegen::new().with_options(printing(None)).build(&parsed.program).code;
    } else {
        if !unit.is_script && SCRIPT_NAMES.iter().any(|name| source.contains(name)) {
            let semantic = SemanticBuilder::new().build(&parsed.program).semantic;
            free = free_names(semantic.scoping());
        }
        unit.code = source.to_owned();
    }
    if unit.is_script {
        let exports = commonjs::Exports::read(&parsed.program);
        (unit.exports, unit.stars) = (exports.names, exports.stars);
    }
    read_links(&parsed.program, &mut unit);
    if !unit.is_script && !free.is_empty() {
        unit.code.insert_str(0, &script_scope(&free));
        unit.imports.push(Import {
            from: "tiller:require".into(),
            names: vec!["scopeOf".into()],
            whole: false,
        });
    }
    Ok(unit)
}

/// Maps a position in the generated code to the author's file. Lines and columns start at 1.
pub(crate) fn original_position(
    path: &Path,
    source: &str,
    is_module: Option<bool>,
    line: u32,
    column: u32,
) -> Option<(u32, u32)> {
    let find = || original_position_here(path, source, is_module, line, column);
    with_large_stack(path, source, find).ok().flatten()
}

fn original_position_here(
    path: &Path,
    source: &str,
    is_module: Option<bool>,
    line: u32,
    column: u32,
) -> Option<(u32, u32)> {
    let allocator = Allocator::default();
    let mut parsed = parse(&allocator, path, source, is_module).ok()?;
    if !needs_printing(&parsed.program) {
        return Some((line, column));
    }
    transform_program(&allocator, path, source, &mut parsed.program).ok()?;
    let options = printing(Some(path));
    let CodegenReturn { map, .. } = Codegen::new().with_options(options).build(&parsed.program);
    let map = map?;
    let table = map.generate_lookup_table();
    let line = line.checked_sub(1)?;
    let token = map
        .lookup_token(&table, line, column.saturating_sub(1))
        .or_else(|| table.get(line as usize)?.first().copied())?;
    Some((token.get_src_line() + 1, token.get_src_col() + 1))
}

struct Parsed<'a> {
    program: Program<'a>,
    is_script: bool,
}

fn parse<'a>(
    allocator: &'a Allocator,
    path: &Path,
    source: &'a str,
    is_module: Option<bool>,
) -> Result<Parsed<'a>, String> {
    let kind = SourceType::from_path(path).unwrap_or_else(|_| SourceType::mjs());
    // A script may `return` at its top level, because it becomes a function body.
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let as_module = || Parser::new(allocator, source, kind.with_module(true)).with_options(options);
    let as_script =
        || Parser::new(allocator, source, kind.with_commonjs(true)).with_options(options);
    if is_module == Some(false) {
        let parsed = as_script().parse();
        // Accepts module syntax in a file declared as a script, as other loaders do.
        let is_fine = !parsed.panicked && !parsed.diagnostics.has_errors();
        if is_fine && !parsed.module_record.has_module_syntax {
            return Ok(Parsed { program: parsed.program, is_script: true });
        }
    }
    let parsed = as_module().parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        if is_module.is_none() {
            // Sloppy-mode scripts, for example with an octal literal, are not valid modules.
            let script = as_script().parse();
            if !script.panicked && !script.diagnostics.has_errors() {
                return Ok(Parsed { program: script.program, is_script: true });
            }
        }
        return Err(syntax_error(path, source, &parsed.diagnostics));
    }
    let is_script =
        is_module.is_none() && !parsed.module_record.has_module_syntax && looks_like_script(source);
    Ok(Parsed { program: parsed.program, is_script })
}

/// Whether a file without imports and exports uses CommonJS.
fn looks_like_script(source: &str) -> bool {
    ["module.exports", "exports.", "exports[", "require("].iter().any(|word| source.contains(word))
}

fn needs_printing(program: &Program<'_>) -> bool {
    program.source_type.is_typescript() || program.source_type.is_jsx()
}

fn printing(map_for: Option<&Path>) -> CodegenOptions {
    CodegenOptions { source_map_path: map_for.map(Path::to_owned), ..CodegenOptions::default() }
}

fn transform_program<'a>(
    allocator: &'a Allocator,
    path: &Path,
    source: &str,
    program: &mut Program<'a>,
) -> Result<Scoping, String> {
    let semantic = SemanticBuilder::new().with_excess_capacity(2.0).with_enum_eval(true);
    let scoping = semantic.build(program).semantic.into_scoping();
    let options = TransformOptions::default();
    let done = Transformer::new(allocator, path, &options).build_with_scoping(scoping, program);
    if done.diagnostics.has_errors() {
        Err(syntax_error(path, source, &done.diagnostics))
    } else {
        Ok(done.scoping)
    }
}

fn syntax_error(path: &Path, source: &str, diagnostics: &Diagnostics) -> String {
    let Some(first) = diagnostics.errors().next() else {
        return format!("{}: cannot be read", path.display());
    };
    let position = first
        .labels
        .iter()
        .next()
        .map_or((1, 1), |label| position_of(source, label.offset() as usize));
    format!("{}:{}:{}: {}", path.display(), position.0, position.1, first.message)
}

fn position_of(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn free_names(scoping: &Scoping) -> Vec<&'static str> {
    let free = scoping.root_unresolved_references();
    SCRIPT_NAMES.into_iter().filter(|name| free.iter().any(|(free, _)| free == name)).collect()
}

/// Prepended to a module that uses names only scripts have. It goes on the first line so that line
/// numbers stay the same.
fn script_scope(names: &[&str]) -> String {
    let names = names.join(",");
    format!(
        "import{{scopeOf as $scopeOf}}from\"tiller:require\";const{{{names}}}=$scopeOf(import.meta);"
    )
}

fn read_links(program: &Program<'_>, unit: &mut Unit) {
    for statement in &program.body {
        match statement {
            Statement::ImportDeclaration(import) => {
                let entry = import_from(&mut unit.imports, &import.source.value);
                for specifier in import.specifiers.iter().flatten() {
                    match specifier {
                        ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                            entry.names.push(specifier.imported.name().to_string());
                        }
                        ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => {
                            entry.names.push("default".into());
                        }
                        ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => {
                            entry.whole = true;
                        }
                    }
                }
            }
            Statement::ExportAllDeclaration(export) => {
                import_from(&mut unit.imports, &export.source.value).whole = true;
                match &export.exported {
                    Some(name) => unit.exports.push(name.name().to_string()),
                    None => unit.stars.push(export.source.value.to_string()),
                }
            }
            Statement::ExportFromDeclaration(export) => {
                let entry = import_from(&mut unit.imports, &export.source.value);
                for specifier in &export.specifiers {
                    entry.names.push(specifier.local.name().to_string());
                    unit.exports.push(specifier.exported.name().to_string());
                }
            }
            Statement::ExportNamedDeclaration(export) => {
                let names = export.specifiers.iter().map(|name| name.exported.name().to_string());
                unit.exports.extend(names);
            }
            Statement::ExportDefaultDeclaration(_) => unit.exports.push("default".into()),
            Statement::ExportDeclaration(export) => declared(&export.declaration, unit),
            _ => (),
        }
    }
}

fn import_from<'u>(imports: &'u mut Vec<Import>, from: &str) -> &'u mut Import {
    let index = imports.iter().position(|import| import.from == from).unwrap_or_else(|| {
        imports.push(Import { from: from.to_owned(), ..Import::default() });
        imports.len() - 1
    });
    &mut imports[index]
}

fn declared(declaration: &Declaration<'_>, unit: &mut Unit) {
    match declaration {
        Declaration::VariableDeclaration(variables) => declared_variables(variables, unit),
        Declaration::FunctionDeclaration(function) => {
            unit.exports.extend(function.id.as_ref().map(|id| id.name.to_string()));
        }
        Declaration::ClassDeclaration(class) => {
            unit.exports.extend(class.id.as_ref().map(|id| id.name.to_string()));
        }
        _ => (),
    }
}

fn declared_variables(variables: &VariableDeclaration<'_>, unit: &mut Unit) {
    for declarator in &variables.declarations {
        let names = declarator.id.get_binding_identifiers();
        unit.exports.extend(names.iter().map(|name| name.name.to_string()));
    }
}

#[cfg(test)]
mod tests;
