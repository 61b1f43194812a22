/* Names of Visual C++: a table of known answers, and every function of PDBs and of a program by clang against
 * llvm-undname, which writes more and other blanks. */
#include "symbolication/demangle/demangle.h"

#include "fixture_support.h"

static char *demangle(const char *name)
{
	struct sp_buffer out = { 0 };
	if (!sp_demangle(name, &out)) {
		assert_int_equal(out.size, 0);
		free(out.bytes);
		return strdup(name);
	}
	assert_null(sp_buffer_write(&out, "", 1));
	return out.bytes;
}

static void test_table(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "?f@@YAXXZ", "f(void)" },
		{ "?f@ns@@YAHPEBDH@Z", "ns::f(char const*, int)" },
		{ "?f@C@ns@@QEBA_N_K_J@Z", "ns::C::f(uint64_t, int64_t)" },
		{ "??0?$vector@HV?$allocator@H@std@@@std@@QEAA@XZ",
		  "std::vector<int, std::allocator<int> >::vector<int, std::allocator<int> >(void)" },
		{ "??1C@@UEAA@XZ", "C::~C(void)" },
		{ "??BC@@QEAAPEADXZ", "C::operator char*(void)" },
		{ "??4C@@QEAAAEAV0@AEBV0@@Z", "C::operator=(C const&)" },
		{ "??2@YAPEAX_K@Z", "operator new(uint64_t)" },
		{ "??_GC@@UEAAPEAXI@Z", "C::`scalar deleting destructor'(unsigned int)" },
		{ "??__K_deg@@YAHO@Z", "operator \"\"_deg(long double)" },
		{ "??__Ex@@YAXXZ", "`dynamic initializer for 'x''(void)" },
		{ "??__E?x@ns@@3HA@@YAXXZ", "`dynamic initializer for 'ns::x''(void)" },
		{ "?f@?A0x1234@@YAXXZ", "`anonymous namespace'::f(void)" },
		{ "?x@?1??g@@YAXXZ@4HA", "`g(void)'::`2'::x" },
		{ "??R<lambda_1>@?0??f@@YAXXZ@QEBA@H@Z", "`f(void)'::`1'::<lambda_1>::operator()(int)" },
		{ "??$f@$0A@$0?1$0BAA@@@YAXXZ", "f<0, -2, 256>(void)" },
		{ "??$f@$$V@@YAXXZ", "f<>(void)" },
		{ "??$f@$1?g@@YAXXZ@@YAXXZ", "f<&g(void)>(void)" },
		{ "?f@@YAXPAY02H@Z", "f(int (*)[3])" },
		{ "?f@@YAXP6AHH@Z@Z", "f(int (*)(int))" },
		{ "?f@@YAXP8C@@EAAHH@Z@Z", "f(int (C::*)(int))" },
		{ "?f@@YAXPEQC@@H@Z", "f(int C::*)" },
		{ "?f@@YAXAEBQEAH@Z", "f(int* const&)" },
		{ "?f@@YAXPEAPEAY01$$CBH@Z", "f(int const (**)[2])" },
		{ "?f@@YAX$$QEAV?$a@H@@@Z", "f(a<int>&&)" },
		{ "?f@@YAXPEBQEBD0@Z", "f(char const* const*, char const* const*)" },
		{ "?f@@YAXHZZ", "f(int, ...)" },
		{ "?f@@YAX$$T@Z", "f(std::nullptr_t)" },
		{ "?f@@YAXXZ.cold", "f(void).cold" },
		{ "?f@C@@W7EAAXXZ", "C::f(void)" },
		{ "?f@C@@$4PPPPPPPM@A@EAAXXZ", "C::f(void)" },
		/* Not names, or cut off: they stay. */
		{ "?", "?" },
		{ "??", "??" },
		{ "?f", "?f" },
		{ "?f@@YAX", "?f@@YAX" },
		{ "?f@@YAX9@Z", "?f@@YAX9@Z" },
		{ "??_C@_02LCPENACN@F1@", "??_C@_02LCPENACN@F1@" },
		{ "??@0123456789abcdef0123456789abcdef@", "??@0123456789abcdef0123456789abcdef@" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *ours = demangle(cases[i][0]);
		assert_string_equal(ours, cases[i][1]);
		free(ours);
	}
}

/* Deep and growing names end within bounds. */
static void test_hostile(void **state)
{
	(void)state;
	static char name[70000];
	memcpy(name, "?f@@YAX", 7);
	memset(name + 7, 'P', sizeof(name) - 8);
	free(demangle(name));
	for (size_t i = 7; i + 4 < sizeof(name); i += 3)
		memcpy(name + i, "PEA", 3);
	name[60000] = 0;
	free(demangle(name));
	/* Each template's argument names the one before twice. */
	size_t at = (size_t)sprintf(name, "?f@@YAX");
	for (unsigned i = 0; i < 40; i++)
		at += (size_t)sprintf(name + at, "V?$a@V?$b@H@@V1@@@");
	sprintf(name + at, "@Z");
	free(demangle(name));
}

static void erase(char *text, const char *word)
{
	size_t size = strlen(word);
	for (char *at = text; (at = strstr(at, word));)
		memmove(at, at + size, strlen(at + size) + 1);
}

static void replace(char *text, const char *from, const char *to)
{
	for (char *at = text; (at = strstr(at, from)); at += strlen(to)) {
		memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
		memcpy(at, to, strlen(to));
	}
}

/* The same spelling for both: the other tool has "class", results inside of quotes, qualifiers of "this". */
static void normalize(char *text)
{
	static const char *const words[] = { "class ",   "struct ",   "union ",        "enum ",
		                             "public: ", "private: ", "protected: ",   "static ",
		                             "virtual ", "__cdecl ",  "extern \"C\" ", "__restrict" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		erase(text, words[i]);
	replace(text, "unsigned __int64", "uint64_t");
	replace(text, "__int64", "int64_t");
	replace(text, "[0]", "[]");
	erase(text, " ");
	/* What follows the parameters of a method. */
	size_t length = strlen(text);
	static const char *const ends[] = {
		")const&", ")const&&", ")const", ")volatile", ")constvolatile", ")&", ")&&"
	};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t size = strlen(ends[i]);
		if (length > size && strcmp(text + length - size, ends[i]) == 0)
			text[length - size + 1] = 0;
	}
}

/* Compares the names of the file "names", one a line; gives how many were compared. */
static unsigned compare_names(void)
{
	unsigned compared = 0, differing = 0;
	must_run("llvm-undname --no-access-specifier --no-calling-convention --no-member-type --no-return-type "
	         "--no-variable-type <names >answers 2>/dev/null || true");
	FILE *in = fopen(in_folder("answers"), "r");
	static char name[70000], answer[70000];
	while (fgets(name, sizeof(name), in) && fgets(answer, sizeof(answer) - 1000, in)) {
		name[strcspn(name, "\n")] = 0;
		answer[strcspn(answer, "\n")] = 0;
		char blank[100];
		if (answer[0] && fgets(blank, sizeof(blank), in) == NULL)
			break;
		/* The other tool writes results in quotes in spite of its options. */
		if (!answer[0] || strchr(answer, '`') || strncmp(name, "??_C@", 5) == 0 ||
		    strncmp(name, "??_R", 4) == 0)
			continue;
		char *ours = demangle(name), shown[300];
		snprintf(shown, sizeof(shown), "%.290s", ours);
		ours = realloc(ours, strlen(ours) + 1000);
		normalize(ours);
		normalize(answer);
		compared++;
		if (strcmp(ours, answer) != 0 && ++differing < 10)
			printf("%s\n  ours:   %s\n  theirs: %s\n", name, shown, answer);
		free(ours);
	}
	fclose(in);
	assert_int_equal(differing, 0);
	return compared;
}

static const char source[] =
    "namespace ns { template <class T, int N = 3> struct Box { T t[N]; Box(const T &); ~Box(); operator T() const;\n"
    "Box &operator=(const Box &); T &operator[](long long); template <class U> T get(U *, T (*)(U *)) const; };\n"
    "enum class Color : char { Red }; struct Base { virtual int run(Color, ...) const volatile; int field; };\n"
    "template <class... A> void pack(A &&...) {} template <auto V> int value(); template <int Base::*M> int member();\n"
    "template <int (Base::*F)(Color, ...) const volatile> int method(); struct V1 : virtual Base {}; }\n"
    "using namespace ns; extern int g; int (*table(int))(double, float); long double operator\"\"_x(long double);\n"
    "void arrays(int (*)[3][4], const char *const (&)[2]); void refs(volatile int &, int *&&, char16_t, char32_t, "
    "char8_t);\n"
    "void use(Box<int> *b, Box<const char *, 2> *c, Base *d, int Base::*m, int (Base::*f)(Color, ...) const volatile,\n"
    "  unsigned short s, signed char sc, unsigned char uc, long l, unsigned long ul, wchar_t w, decltype(nullptr) n) "
    "{\n"
    "  Box<int> x(3); x = *b; (void)(int)x; x[1] = 2; x.get((char *)0, (int (*)(char *))0);\n"
    "  pack(); pack(1, 2.0, \"three\", *d, x); value<5>(); value<-7>(); value<&g>(); value<nullptr>();\n"
    "  member<&Base::field>(); method<&Base::run>(); table(1)(2.0, 3.0f); operator\"\"_x(1.0L); arrays(0, {\"a\", "
    "\"b\"});\n"
    "  int v; refs(v, 0, u'a', U'b', u8'c'); d->run(Color::Red); (d->*f)(Color::Red); d->*m = 1;\n"
    "  use(b, c, d, m, f, s, sc, uc, l, ul, w, n); V1 v1; pack(v1, [](int i) { return i; }, (int (*)[2])0); }\n";

static void test_clang(void **state)
{
	(void)state;
	if (!have("clang++") || !have("llvm-nm") || !have("llvm-undname")) {
		skip_part("names by clang", "clang or llvm is not installed");
		return;
	}
	write_text("a.cpp", source);
	must_run("clang++ --target=x86_64-pc-windows-msvc -std=c++20 -c a.cpp -o a.obj && "
	         "llvm-nm a.obj | sed 's/.* //' | grep '^?' >names");
	unsigned compared = compare_names();
	printf("%u names of a program compared\n", compared);
	assert_true(compared >= 15);
}

static void test_shared(void **state)
{
	(void)state;
	if (access(TEST_SHARED_DATA "/pdb/softokn3.pdb", R_OK) != 0 || !have("llvm-pdbutil")) {
		skip_part("names of PDBs of others", "no shared data, or llvm is not installed");
		return;
	}
	must_run("for p in softokn3 WriteArgument; do llvm-pdbutil dump -publics %s/pdb/$p.pdb; done | "
	         "sed -n 's/.*S_PUB32.*`\\(?.*\\)`$/\\1/p' | sort -u >names",
	         TEST_SHARED_DATA);
	assert_true(compare_names() > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_clang),
		cmocka_unit_test(test_shared),
	};
	if (argc > 1) { /* a file of names, to compare by hand */
		make_folder(NULL);
		must_run("cp '%s' names", argv[1]);
		printf("%u names compared\n", compare_names());
		return remove_folder(NULL);
	}
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
