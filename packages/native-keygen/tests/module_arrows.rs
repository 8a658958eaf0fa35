//! The modules of this crate form no circle, so that a reader can take each one after those that it uses. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn no_module_uses_one_that_uses_it() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/rust"));
    let sources = sources_in(folder, "");
    assert!(sources.len() > 30, "only {} modules found", sources.len());
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, source) in &sources {
        uses.insert(module, used_modules(module, source, &sources));
    }
    assert!(uses["rsa::prime_search"].contains("rsa::sieve"));
    assert!(uses["process::bridge"].contains("process"));
    remove_free_modules(&mut uses);
    assert!(uses.is_empty(), "these modules form a circle: {uses:#?}");
}

/// The sources by module path, such as `rsa::sieve`.
fn sources_in(folder: &Path, prefix: &str) -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        let module = match (prefix, &*name) {
            (prefix, "mod") => prefix.to_string(),
            ("", name) => name.to_string(),
            (prefix, name) => format!("{prefix}::{name}"),
        };
        if path.is_dir() {
            sources.extend(sources_in(&path, &module));
        } else if !matches!(&*name, "lib" | "tests") {
            let source = fs::read_to_string(&path).expect("a source");
            sources.insert(module, source);
        }
    }
    sources
}

/// The modules in every path of the source that starts with `crate::` or `super::`, and in every `use`.
fn used_modules<'a>(
    module: &str,
    source: &str,
    sources: &'a BTreeMap<String, String>,
) -> BTreeSet<&'a str> {
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let code = source.split("mod tests {").next().unwrap_or_default();
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{} ", line.trim()))
        .collect();
    let mut used = BTreeSet::new();
    for (marker, start) in [("crate::", ""), ("super::", parent), ("use ", module)] {
        for rest in code.split(marker).skip(1) {
            for path in expanded(rest) {
                let absolute = format!("{start}::{path}");
                used.extend(module_of(absolute.trim_start_matches("::"), sources));
            }
        }
    }
    used.remove(module);
    used
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`, from the start of `text`.
fn expanded(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (prefix, rest) = text.split_at(end);
    let Some(list) = rest
        .strip_prefix('{')
        .filter(|_| prefix.is_empty() || prefix.ends_with("::"))
    else {
        return vec![prefix.to_string()];
    };
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            _ if depth < 0 => break,
            ',' if depth == 0 => items.push(String::new()),
            c => items.last_mut().expect("an item").push(c),
        }
    }
    let items = items.iter().flat_map(|item| expanded(item.trim()));
    items.map(|item| format!("{prefix}{item}")).collect()
}

/// The module that a path leads into: the longest one that it starts with.
fn module_of<'a>(path: &str, sources: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let is_prefix = |module: &str| path == module || path.starts_with(&format!("{module}::"));
    let modules = sources.keys().map(String::as_str);
    modules
        .filter(|module| is_prefix(module))
        .max_by_key(|module| module.len())
}

/// Removes modules that use none of the others, until only circles, and what uses them, are left.
fn remove_free_modules(uses: &mut BTreeMap<&str, BTreeSet<&str>>) {
    loop {
        let left: BTreeSet<&str> = uses.keys().copied().collect();
        uses.retain(|_, used| !used.is_disjoint(&left));
        if uses.len() == left.len() {
            return;
        }
    }
}
