/* Demangling: known names, bounds, and agreement with c++filt on the names of a real library. */
#include "symbolication/demangle/demangle.h"
#include "symbolication/names.h"

#include "fixture_support.h"

static const char *readable(const char *name)
{
	static struct sp_buffer out;
	free(out.bytes);
	out = (struct sp_buffer){ 0 };
	if (!sp_demangle(name, &out))
		return name;
	assert_null(sp_buffer_write(&out, "", 1));
	return out.bytes;
}

static void test_known(void **state)
{
	(void)state;
	static const char *const names[][2] = {
		{ "main", "main" },
		{ "_start", "_start" },
		{ "_Z3fooi", "foo(int)" },
		{ "_ZN3foo3barEv.isra.0", "foo::bar() [clone .isra.0]" },
		{ "_ZNK8KxVectorI16KxfArcFileRecordjEixEj",
		  "KxVector<KxfArcFileRecord, unsigned int>::operator[](unsigned int) const" },
		{ "_Z3maxIiET_S0_S0_", "max<int>(int, int)" }, /* no return type */
		{ "_Znwm@plt", "operator new(unsigned long)@plt" },
		{ "memcpy@@GLIBC_2.14", "memcpy@@GLIBC_2.14" },
		{ "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
		  "<std::path::PathBuf>::new" },
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
		{ "_D3std5stdio7writelnFNfAyaZv", "std.stdio.writeln(immutable(char)[])" },
		{ "camlStdlib__array__map_154", "Stdlib.array.map_154" },
		{ "camlStdlib__anon_fn$5bstdlib$2eml$3a334$2c0$2d$2d54$5d_1453",
		  "Stdlib.anon_fn[stdlib.ml:334,0--54]_1453" },
		{ "camlFoo$ff", "Foo\xc3\xbf" },
		{ "camlFoo_", "Foo_" },
		{ "camlFoo__", "Foo." },
		{ "camlFoo$", "Foo$" },
		{ "camlFoo$a", "Foo$a" },
		{ "camlFoo$$", "Foo$$" },
		{ "camlfoo", "camlfoo" },
		{ "_Z", "_Z" },
		{ "_R", "_R" },
		{ "_D", "_D" },
		{ "", "" },
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_string_equal(readable(names[i][0]), names[i][1]);
}

/* libiberty gives up beyond 1,024 characters; real names are longer. */
static void test_long_names(void **state)
{
	(void)state;
	char *name = malloc(70000), *expected = malloc(300000);
	assert_non_null(name);
	assert_non_null(expected);
	strcpy(name, "_Z1f");
	strcpy(expected, "f(");
	for (unsigned i = 0; i < 200; i++) {
		strcat(name, "7ABCDEFG");
		sprintf(name + strlen(name) - 7, "T%06u", i);
		sprintf(expected + strlen(expected), "%sT%06u", i ? ", " : "", i);
	}
	strcat(expected, ")");
	assert_true(strlen(name) > 1024);
	assert_string_equal(readable(name), expected);
	/* As deep as a name can nest, and one beyond the limit: neither may crash. */
	strcpy(name, "_Z1f");
	memset(name + 4, 'P', 65000);
	strcpy(name + 65004, "i");
	assert_string_equal(readable(name), name);
	memset(name + 4, 'P', 69000);
	strcpy(name + 69004, "i");
	assert_string_equal(readable(name), name);
	free(name);
	free(expected);
}

/* Each argument repeats the one before twice: 2^30 names. */
static void test_exponential(void **state)
{
	(void)state;
	char name[1000] = "_Z1f1AIiiE";
	for (unsigned i = 0; i < 30; i++) {
		char part[20], number[8] = "";
		if (i >= 1)
			sprintf(number, "%c", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i - 1]);
		sprintf(part, "S_IS%s_S%s_E", number, number);
		strcat(name, part);
	}
	assert_string_equal(readable(name), name);
	struct sp_buffer out = { 0 };
	assert_false(sp_demangle(name, &out));
	assert_int_equal(out.size, 0);
	free(out.bytes);
}

/* D's back references: each argument is an associative array of the one before, twice. */
static void test_exponential_d(void **state)
{
	(void)state;
	for (unsigned levels = 3; levels < 60; levels++) {
		char name[1000] = "_D1fF";
		size_t at = strlen(name), start = at;
		at += (size_t)sprintf(name + at, "Hii");
		for (unsigned i = 0; i < levels; i++) {
			size_t next = at;
			name[at++] = 'H';
			for (unsigned k = 0; k < 2; k++) {
				size_t distance = at - start;
				name[at++] = 'Q';
				if (distance >= 26)
					name[at++] = (char)('A' + distance / 26);
				name[at++] = (char)('a' + distance % 26);
			}
			start = next;
		}
		strcpy(name + at, "Zv");
		bool changed = strcmp(readable(name), name) != 0;
		assert_true(levels > 5 || changed);
		assert_true(levels < 25 || !changed);
	}
	assert_string_equal(readable("_D2rt3aaA10allocEntryFMxPSQyQx4ImplMxPvZPv"),
	                    "rt.aaA.allocEntry(scope const(rt.aaA.Impl*), scope const(void*))");
}

/* What was in the buffer before stays. */
static void test_append(void **state)
{
	(void)state;
	struct sp_buffer out = { 0 };
	assert_null(sp_buffer_write(&out, "x: ", 3));
	assert_true(sp_demangle("_Z3fooi", &out));
	assert_int_equal(out.size, 11);
	assert_memory_equal(out.bytes, "x: foo(int)", 11);
	assert_false(sp_demangle("_Zfoo", &out));
	assert_int_equal(out.size, 11);
	free(out.bytes);
}

/* c++filt prints return types of templates, which we drop: those names are compared without them. */
static void test_library(void **state)
{
	(void)state;
	must_run("nm -D --without-symbol-versions $(gcc -print-file-name=libstdc++.so) | awk '{print $NF}' | "
	         "grep '^_Z' | sort -u >names && c++filt -i <names >expected && wc -l <names");
	size_t size;
	char *names = (char *)read_bytes("names", &size), *expected = (char *)read_bytes("expected", &size);
	char *name_at, *expected_at;
	size_t same = 0, shorter = 0;
	char *name = strtok_r(names, "\n", &name_at), *other = strtok_r(expected, "\n", &expected_at);
	for (; name && other; name = strtok_r(NULL, "\n", &name_at), other = strtok_r(NULL, "\n", &expected_at)) {
		const char *own = readable(name);
		if (strcmp(own, other) == 0)
			same++;
		else if (strlen(own) < strlen(other) && strcmp(own, other + strlen(other) - strlen(own)) == 0)
			shorter++;
		else
			fail_msg("%s: %s, c++filt has %s", name, own, other);
	}
	printf("%zu names as c++filt has them, %zu without return type\n", same, shorter);
	assert_true(same > 2000);
	free(names);
	free(expected);
}

static void test_names(void **state)
{
	(void)state;
	struct sp_names *names = sp_names_create(false);
	static char keys[3000][32];
	const char *values[3000];
	for (unsigned i = 0; i < 3000; i++) {
		sprintf(keys[i], "_Z4f%03uv", i % 1000);
		values[i] = sp_names_get(names, keys[i]);
	}
	for (unsigned i = 0; i < 3000; i++) {
		char expected[32];
		sprintf(expected, "f%03u()", i % 1000);
		assert_string_equal(values[i], expected);
		assert_ptr_equal(values[i], values[i % 1000]); /* equal names are one string */
		assert_ptr_equal(sp_names_get(names, keys[i]), values[i]);
	}
	static const char plain[] = "plain";
	assert_ptr_equal(sp_names_get(names, plain), plain);
	assert_ptr_equal(sp_names_copy(names, "fun_10"), sp_names_copy(names, "fun_10"));
	sp_names_destroy(names);
	names = sp_names_create(true);
	assert_ptr_equal(sp_names_get(names, keys[0]), keys[0]);
	sp_names_destroy(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),       cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_exponential), cmocka_unit_test(test_exponential_d),
		cmocka_unit_test(test_append),      cmocka_unit_test(test_library),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
