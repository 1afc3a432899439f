# ./dev docs: the documentation as a site, with the API reference of the Python package.
# shellcheck shell=bash

# The pages, laid out as the site has them: docs/ at its root, the rest beside it.
gather_site() {
    local source=$BUILD/site-source
    rm -rf "$source"
    mkdir -p "$source/bench"
    cp -r "$ROOT/docs/." "$source"
    cp -r "$ROOT/spec" "$ROOT/include" "$ROOT/examples" "$ROOT/CHANGELOG.md" "$ROOT/LICENSE" "$source"
    cp -r "$ROOT/bench/results" "$source/bench"
    sed -i 's#](\.\./#](#g' "$source"/*.md
    find "$source/spec" -name '*.md' -exec sed -i 's#\.\./docs/#../#g' {} +
}

# Some of them are those of the Python package's tests.
docs_packages() {
    python_packages python
    python_packages docs
}

build_site() {
    gather_site
    (cd "$ROOT" && NO_MKDOCS_2_WARNING=1 "$VENV/bin/python" -m mkdocs build --strict)
}

test_site() {
    docs_packages
    build_site
}

cmd_docs() {
    need_packages build
    docs_packages
    quietly "documentation" build_site
    say "Built: $BUILD/site/index.html"
}
