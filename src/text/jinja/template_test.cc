// What the goldens cannot say: limits, hostile templates, where errors are.
#include "text/jinja/template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace bass::jinja {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

Result<std::string> render(const std::string& source, const Json& variables = Json::object(),
                           const Limits& limits = {}) {
  const Result<Template> parsed = Template::parse(source);
  return parsed.ok() ? parsed.value().render(variables, 0, limits) : parsed.status();
}

/// Small, as what is tested does not depend on how far the limits are.
constexpr Limits kSmall{.max_steps = 200'000, .max_bytes = 8 << 20};

std::string error_of(const std::string& source, const Json& variables = Json::object(), const Limits& limits = kSmall) {
  const Result<std::string> text = render(source, variables, limits);
  EXPECT_FALSE(text.ok()) << source.substr(0, 200) << " gives " << (text.ok() ? text.value().size() : 0) << " bytes";
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  return text.status().message();
}

std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JinjaTemplateTest, RendersWithVariables) {
  EXPECT_EQ(render("{{ a }}{% for x in b %}{{ x.c }}{% endfor %}", {{"a", 1}, {"b", {{{"c", "x"}}, {{"c", nullptr}}}}})
                .value(),
            "1xNone");
  EXPECT_EQ(render("").value(), "");
  EXPECT_EQ(render("{{ a }}", {{"a", "x\xFFy"}}).value(), "x\xEF\xBF\xBDy");
}

TEST(JinjaTemplateTest, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\n\n{{ b.c }}"), "line 3: 'b' is undefined");
  EXPECT_EQ(error_of("a\r\n{% if\n x %}"), "line 3: the template ends without 'endif'");
  EXPECT_EQ(error_of("{#\n#}{{\n\n 1 + }}"), "line 4: expected an expression, got '}}'");
  EXPECT_EQ(error_of("{% for x in y %}\n{% endif %}"), "line 2: unknown tag 'endif'");
  EXPECT_EQ(error_of("\n{% macro m() %}\n{{ 1 / 0 }}\n{% endmacro %}\n{{ m() }}"), "line 3: division by zero");
  EXPECT_EQ(error_of("\n{{ raise_exception('no ' ~ 1) }}"), "line 2: no 1");
  EXPECT_EQ(error_of("x\n\xFF"), "line 2: no valid UTF-8");
  EXPECT_EQ(error_of("\n{{ 'abc }}"), "line 2: a string without its closing quote");
  EXPECT_EQ(error_of("{{ x | nothing }}"), "line 1: no filter named 'nothing'");
  EXPECT_EQ(error_of("{% for x in [] recursive %}{% endfor %}"), "line 1: recursive loops are not supported");
  EXPECT_EQ(error_of("{% include 'x' %}"), "line 1: unknown tag 'include'");
}

TEST(JinjaTemplateTest, LoopsThatNeverEndAreErrors) {
  const std::string nested = repeated("{% for x in range(100000) %}", 4) + repeated("{% endfor %}", 4);
  EXPECT_THAT(error_of(nested), HasSubstr("steps"));
  for (const std::string squared :
       {"x | unique | list", "x | map('string') | unique | list", "dict(x | batch(2))", "x | select('in', x) | list"}) {
    EXPECT_THAT(error_of("{% set x = range(20000) | list %}{{ " + squared + " }}"), HasSubstr("steps")) << squared;
  }
  // Names are looked for one after the other.
  std::string names, attributes = "{% set ns = namespace() %}";
  for (int i = 0; i < 2000; ++i) {
    names += "{% set a" + std::to_string(i) + " = 0 %}";
    attributes += "{% set ns.a" + std::to_string(i) + " = 0 %}";
  }
  const std::string thrice = "{% for x in range(300) %}{{ b }}{{ b }}{{ b }}{% endfor %}";
  EXPECT_TRUE(render(thrice, Json::object(), kSmall).ok()) << "a control";
  EXPECT_THAT(error_of(names + thrice), HasSubstr("steps"));
  EXPECT_THAT(error_of(attributes + "{% for x in range(300) %}{{ ns.b }}{{ ns.b }}{{ ns.b }}{% endfor %}"),
              HasSubstr("steps"));
  // A text that nearly is at every place of another.
  const std::string texts =
      "{% set x = 'a' * 400000 %}{% set y = 'a' * 200000 ~ 'b' %}{% set z = 'b' * 200000 ~ 'a' %}{{ ";
  for (const std::string search :
       {"y in x", "x.find(y)", "x.rfind(z)", "x.count(y)", "x.replace(y, '')", "x | replace(y, '')", "x.split(y)",
        "x.rsplit(z)", "x.partition(y)", "x.rpartition(z)", "x.strip(z)", "x | trim(z)"}) {
    EXPECT_THAT(error_of(texts + search + " }}"), HasSubstr("steps")) << search;
  }
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("deep"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("deep"));
  EXPECT_THAT(
      error_of("{% macro a(f) %}{{ caller() }}{% endmacro %}{% macro m() %}{% call a(1) %}{{ m() }}{% endcall %}"
               "{% endmacro %}{{ m() }}"),
      HasSubstr("deep"));
}

TEST(JinjaTemplateTest, WhatExplodesIsAnError) {
  const std::string doubles = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ";
  for (const std::string grown :
       {"ns.x + ns.x", "ns.x ~ ns.x", "ns.x * 2", "ns.x.replace('a', 'aa')", "ns.x | replace('a', 'aa')",
        "[ns.x, ns.x] | join", "ns.x.join(['a', 'b', ns.x])", "'%s%s' % (ns.x, ns.x)", "'{0}{0}'.format(ns.x)",
        "ns.x | tojson | tojson", "[ns.x, ns.x] | string", "(ns.x | list) * 2 | join", "ns.x | upper * 2",
        "ns.x.split('') + [1]", "ns.x[::-1] * 2", "(ns.x, ns.x) | tojson(indent=20)"}) {
    EXPECT_THAT(error_of(doubles + grown + " %}{% endfor %}"), StartsWith("line 1: ")) << grown;
  }
  for (const std::string huge :
       {"'x' * 1000000000", "[1] * 1000000000", "range(1000000000)", "'x' | center(1000000000)",
        "'x'.ljust(9223372036854775807)", "[1] | batch(1000000000, 1) | list", "'a\\nb' | indent(1000000000)",
        "'a' | indent(9223372036854775807)", "[1] | tojson(indent=1000000000)", "cycler(*range(100000)) * 2",
        "'x'.zfill(1000000000)", "'%1000000000d' % 1", "'{:1000000000}'.format(1)", "9223372036854775807 + 1",
        "2 ** 100", "'a' * 9223372036854775807", "(1,) * 1000000000 * 1000000000", "-9223372036854775807 - 2"}) {
    EXPECT_THAT(error_of("{{ " + huge + " }}"), StartsWith("line 1: ")) << huge;
  }
}

TEST(JinjaTemplateTest, TheUsualLimitsHoldTooAndLetLongChatsPass) {
  const Limits usual;
  const std::string print = "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}";
  EXPECT_THAT(error_of(print, Json::object(), usual), HasSubstr("more than 16 MiB"));
  EXPECT_THAT(error_of("{% set x %}" + print + "{% endset %}", Json::object(), usual), HasSubstr("more than 16 MiB"));
  EXPECT_THAT(
      error_of("{% for i in range(100000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", Json::object(), usual),
      HasSubstr("more than 5000000 steps"));
  Json messages = Json::array();
  for (int i = 0; i < 1000; ++i) messages.push_back({{"role", "user"}, {"content", std::string(8000, 'x')}});
  const Result<std::string> text =
      render("{% for m in messages %}{{ m.role + (m.content | trim | replace('y', 'z')) + '\n' }}{% endfor %}",
             {{"messages", messages}});
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text.value().size(), 8'005'000U);
}

TEST(JinjaTemplateTest, ValuesInEachOtherStayShallow) {
  const std::string grow = "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = ";
  for (const std::string deeper : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "[ns.x] | select", "dict(a=ns.x).items()"}) {
    EXPECT_THAT(error_of(grow + deeper + " %}{% endfor %}"), HasSubstr("deep")) << deeper;
  }
  // A tree of few bytes that is printed into very many, and compared in as many steps.
  const std::string tree =
      "{% set ns = namespace(x=[1, 2], y=[1, 2]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = "
      "[ns.y, ns.y] %}"
      "{% endfor %}";
  for (const std::string use :
       {"ns.x", "ns.x | tojson", "ns.x == ns.y", "ns.x < ns.y", "ns.x | string", "'%s' % (ns.x,)"}) {
    EXPECT_THAT(error_of(fmt::format("{}{{{{ {} }}}}", tree, use)), StartsWith("line 1: ")) << use;
  }
  EXPECT_EQ(render(tree + "{{ ns.x == ns.x }}").value(), "True");  // as in Python, which looks at identity first
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(error_of("{{ x }}", {{"x", deep}}), HasSubstr("deep"));
}

TEST(JinjaTemplateTest, CyclesAreFreed) {
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.list = [ns] %}{{ ns.self.self.list | length }}")
          .ok());
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% for x in [1] %}{% set ns.loop = loop %}{{ loop.changed(loop) }}{% endfor %}")
          .ok());
  EXPECT_FALSE(render("{% set ns = namespace() %}{% for x in [1] %}{% set ns.loop = loop %}{% endfor %}{{ "
                      "ns.loop.changed(ns.loop) }}")
                   .ok());
  EXPECT_TRUE(render("{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}{{ ns.m() }}{% macro "
                     "k(x=m) %}{{ x() }}"
                     "{% endmacro %}{{ k() }}")
                  .ok());
  EXPECT_TRUE(
      render("{% set ns = namespace(l=0) %}{% for x in [1, 2, 3] if not ns.l or ns.l.length >= 0 and not ns.l.last %}"
             "{% set ns.l = loop %}{% endfor %}")
          .ok());
}

TEST(JinjaTemplateTest, DeepSourcesAreErrors) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [open, close] :
       {Pair{"(", ")"}, Pair{"[", "]"}, Pair{"{1:", "}"}, Pair{"-", ""}, Pair{"not ", ""}, Pair{"x(", ")"},
        Pair{"x[", "]"}, Pair{"x|f(", ")"}, Pair{"1 if 1 else ", ""}, Pair{"{'a': [", "]}"}, Pair{"x is eq (", ")"},
        Pair{"x is eq [", "]"}, Pair{"x(*", ")"}, Pair{"x(a=", ")"}}) {
    EXPECT_THAT(error_of("{{ " + repeated(open, 15'000) + "1" + repeated(close, 15'000) + " }}"), HasSubstr("deep"))
        << open;
    EXPECT_THAT(error_of("{{ " + repeated(open, 15'000)), StartsWith("line 1: ")) << open;
  }
  EXPECT_THAT(error_of("{{ " + repeated("(", 100'000) + repeated(")", 100'000) + " }}"), HasSubstr("deep"));
  for (const std::string chain :
       {"+ 1 ", ".a", "[0]", "|f", "()", "and 1 ", "or 1 ", "* 1 ", "** 1 ", "if 1 ", "is x "}) {
    EXPECT_THAT(error_of("{{ 1 " + repeated(chain, 20'000) + "}}"), StartsWith("line 1: ")) << chain;
  }
  for (const std::string tag : {"{% if 1 %}", "{% for x in y %}", "{% macro m() %}", "{% set x %}", "{% filter f %}",
                                "{% with %}", "{% call x() %}", "{% generation %}"}) {
    EXPECT_THAT(error_of(repeated(tag, 10'000)), HasSubstr("deep")) << tag;
  }
  EXPECT_THAT(error_of("{% set " + repeated("(", 10'000) + repeated(")", 10'000) + " = 1 %}"), HasSubstr("deep"));
  EXPECT_TRUE(render("{{ 1 " + repeated("~ 1 ", 1000) + "}}").ok());  // long is not deep
  EXPECT_TRUE(render(repeated("{% if 0 %}a{% elif 1 %}", 1) + repeated("{% elif 0 %}", 1000) + "{% endif %}").ok());
  EXPECT_THAT(error_of(std::string(kMaxSourceBytes + 1, ' ')), HasSubstr("bytes"));
}

// Parsing and rendering go through every place at which they can be cut off.
TEST(JinjaTemplateTest, SurvivesCutTemplatesAndSmallLimits) {
  const std::string source =
      "{% macro m(a, b=[1, 'x'], *c) %}{% endmacro %}{%- set ns = namespace(x={'a': (1, 2.5)}) -%}{% for k, v in ns.x "
      "| items if k %}"
      "{{ loop.index ~ k | upper }}{% for y in v[::-1] %}{{ y if y is number else -y }}{% else %}{% endfor %}{% endfor "
      "%}"
      "{% call m(1) %}{% raw %}{{{% endraw %}{% endcall %}{# c #}{% filter trim %} '\\u0041' {% endfilter %}{{ "
      "'a\\n'.split() }}";
  for (size_t len = 0; len <= source.size(); ++len) (void)render(source.substr(0, len));
  const std::string good =
      "{% macro m(a, b=[1, 'x']) %}{{ a }}{{ b }}{% endmacro %}{% set ns = namespace(x={'a': (1, 2.5)}) %}"
      "{% for k, v in ns.x | items if k %}{{ loop.index ~ k | upper }}{{ loop.length }}{% for y in v[::-1] %}{{ y }}{% "
      "endfor %}{% endfor %}"
      "{% set z %}{{ m('q', b={'a': 1} | tojson) }}{% endset %}{{ z.split('q') | map('length') | sort | join(',') }}{{ "
      "'%s' % z }}";
  ASSERT_TRUE(render(good).ok()) << render(good).status().message();
  int n_refused = 0;
  for (int64_t limit = 0; limit < 400; ++limit) {
    n_refused += render(good, Json::object(), {.max_steps = limit}).ok() ? 0 : 1;
    (void)render(good, Json::object(), {.max_bytes = 16 * limit});
    (void)render(good, Json::object(), {.max_eval_depth = static_cast<int>(limit / 10)});
  }
  EXPECT_GT(n_refused, 50);
  EXPECT_LT(n_refused, 400);
}

TEST(JinjaTemplateTest, CyclersAndJoinersAreRefusedWhereJinjaDoes) {
  for (const std::string use : {"cycler()", "cycler(1, a=2)", "cycler(1)()", "cycler(1).next(2)", "joiner(1, 2)",
                                "joiner()(1)", "cycler(1) | list", "cycler(1).none.x"}) {
    EXPECT_THAT(error_of("{{ " + use + " }}"), StartsWith("line 1: ")) << use;
  }
  // Their items are counted, and they may hold themselves.
  EXPECT_THAT(error_of("{% for i in range(100000) %}{% set c = cycler(*range(1000)) %}{% endfor %}", Json::object(),
                       {.max_bytes = kSmall.max_bytes}),
              HasSubstr("MiB"));
  EXPECT_TRUE(render("{% set ns = namespace() %}{% set ns.c = cycler(ns, 1) %}{% set ns.d = cycler(ns.c) %}"
                     "{% set ns.j = joiner(ns) %}{{ ns.j() }}{{ ns.c.next().d.current.next() }}")
                  .ok());
}

TEST(JinjaTemplateTest, HasNoWayOut) {
  for (const std::string path :
       {"''.__class__", "[].__class__.__mro__", "{}.__init__", "range.__globals__", "x.__class__", "(1).__class__",
        "namespace().__init__", "raise_exception.__globals__"}) {
    const Result<std::string> text = render("{{ " + path + " }}", {{"x", 1}});
    EXPECT_TRUE(!text.ok() || text.value().empty()) << path;
    EXPECT_FALSE(render("{{ " + path + ".x }}", {{"x", 1}}).ok()) << path;
  }
  for (const std::string change :
       {"x.append(1)", "x.pop()", "d.update({})", "d.setdefault('a', 1)", "d.clear()", "x['append'](1)"}) {
    EXPECT_FALSE(render("{{ " + change + " }}", {{"x", Json::array({1})}, {"d", Json::object()}}).ok()) << change;
  }
}

}  // namespace
}  // namespace bass::jinja
