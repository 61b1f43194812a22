/* Symbol stores and servers in the layouts of Microsoft's tools, with cabinets written here: every kind of place gives
 * the PDB, and a file of another build is refused by name. */
#include "spsym.h"
#include "symbolication/locate/cabinet.h"

#include "fake_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zlib.h>

static struct spsym_file_info dll, pdb, other;
static uint64_t function; /* relative address of run() */

/* ---- Cabinets ---- */

static void put16(uint8_t **at, unsigned value)
{
	*(*at)++ = (uint8_t)value;
	*(*at)++ = (uint8_t)(value >> 8);
}

static void put32(uint8_t **at, uint32_t value)
{
	put16(at, value & 0xffff);
	put16(at, value >> 16);
}

static size_t pack_mszip(const uint8_t *bytes, size_t size, const uint8_t *before, size_t before_size, uint8_t *out)
{
	z_stream stream = { 0 };
	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	if (before_size)
		deflateSetDictionary(&stream, before, (uInt)before_size);
	out[0] = 'C';
	out[1] = 'K';
	stream.next_in = (uint8_t *)(uintptr_t)bytes;
	stream.avail_in = (uInt)size;
	stream.next_out = out + 2;
	stream.avail_out = 65000;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size_t packed = 2 + stream.total_out;
	deflateEnd(&stream);
	return packed;
}

/* LZX in which nothing is compressed: a bit for x86 code (off), three for the kind of block (3), 24 for its size, then
 * three distances and the bytes. */
static size_t pack_lzx(const uint8_t *bytes, size_t size, uint8_t *out)
{
	uint8_t *at = out;
	uint32_t bits = 3u << 28 | (uint32_t)size << 4; /* 1 + 3 + 24 bits, then 4 of padding */
	put16(&at, bits >> 16);
	put16(&at, bits & 0xffff);
	for (unsigned i = 0; i < 3; i++)
		put32(&at, 1);
	memcpy(at, bytes, size);
	return 16 + size + (size & 1);
}

static uint32_t block_sum(const uint8_t *bytes, size_t size, uint32_t sum)
{
	for (; size >= 4; bytes += 4, size -= 4)
		sum ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
		       (uint32_t)bytes[3] << 24;
	uint32_t rest = 0;
	for (size_t i = 0; i < size; i++)
		rest = rest << 8 | bytes[i];
	return sum ^ rest;
}

/* A cabinet of one file; the caller frees it. `reserve` bytes stand in each header. */
static uint8_t *make_cabinet(const uint8_t *bytes, size_t size, unsigned method, unsigned reserve, size_t *ret_size)
{
	size_t blocks = (size + 32767) / 32768;
	uint8_t *cabinet = calloc(1, size * 2 + blocks * 64 + 400), *at = cabinet + 4;
	memcpy(cabinet, "MSCF", 4);
	unsigned header = 36 + (reserve ? 4 + reserve : 0), files = header + 8 + reserve;
	unsigned data = files + 16 + 6;
	put32(&at, 0);
	at += 4; /* size of the cabinet */
	put32(&at, 0);
	put32(&at, files);
	put32(&at, 0);
	put16(&at, 0x0103);
	put16(&at, 1);
	put16(&at, 1);
	put16(&at, reserve ? 4 : 0);
	put32(&at, 0);
	if (reserve) {
		put16(&at, reserve);
		*at++ = (uint8_t)reserve;
		*at++ = (uint8_t)reserve;
		at += reserve;
	}
	put32(&at, data);
	put16(&at, (unsigned)blocks);
	put16(&at, method == 3 ? 0x0f03 : method); /* LZX with a window of 32 KB */
	at += reserve;
	put32(&at, (uint32_t)size);
	put32(&at, 0);
	at += 8;
	memcpy(at, "a.pdb", 6);
	at = cabinet + data;
	for (size_t done = 0; done < size;) {
		size_t part = size - done < 32768 ? size - done : 32768;
		uint8_t *block = at;
		uint8_t *body = block + 8 + reserve;
		size_t before = done < 32768 ? done : 32768;
		size_t packed = method == 1   ? pack_mszip(bytes + done, part, bytes + done - before, before, body)
		                : method == 3 ? pack_lzx(bytes + done, part, body)
		                              : part;
		if (method == 0)
			memcpy(body, bytes + done, part);
		uint8_t *sizes = block + 4;
		put16(&sizes, (unsigned)packed);
		put16(&sizes, (unsigned)part);
		put32(&at, block_sum(block + 4, 4 + reserve, block_sum(body, packed, 0)));
		at = body + packed;
		done += part;
	}
	*ret_size = (size_t)(at - cabinet);
	at = cabinet + 8;
	put32(&at, (uint32_t)*ret_size);
	return cabinet;
}

static void write_bytes(const char *name, const uint8_t *bytes, size_t size)
{
	FILE *file = fopen(in_folder("%s", name), "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static void write_cabinet(const char *from, const char *to, unsigned method)
{
	size_t size, packed;
	uint8_t *bytes = read_bytes(from, &size), *cabinet = make_cabinet(bytes, size, method, 0, &packed);
	write_bytes(to, cabinet, packed);
	free(bytes);
	free(cabinet);
}

static void check_round_trip(size_t size, unsigned method, unsigned reserve)
{
	uint8_t *bytes = malloc(size + 1);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i * i >> 7 ^ i);
	size_t packed, unpacked;
	uint8_t *cabinet = make_cabinet(bytes, size, method, reserve, &packed), *out;
	struct sp_error *error = sp_cabinet_unpack(cabinet, packed, 1 << 20, &out, &unpacked);
	if (error)
		fail_msg("method %u, %zu bytes: %s", method, size, error->message);
	assert_int_equal(unpacked, size);
	assert_memory_equal(out, bytes, size);
	free(out);
	/* Cut off or damaged, it is an error and nothing else. */
	for (size_t cut = 0; cut < packed; cut += 1 + packed / 50) {
		uint8_t *copy = malloc(cut + 1); /* so that a read past the end is seen */
		memcpy(copy, cabinet, cut);
		error = sp_cabinet_unpack(copy, cut, 1 << 20, &out, &unpacked);
		assert_non_null(error);
		sp_error_destroy(error);
		free(copy);
	}
	cabinet[packed - 3] ^= 1;
	error = sp_cabinet_unpack(cabinet, packed, 1 << 20, &out, &unpacked);
	assert_non_null(error);
	sp_error_destroy(error);
	free(cabinet);
	free(bytes);
}

static void test_cabinets(void **state)
{
	(void)state;
	for (unsigned method = 0; method < 2; method++) {
		check_round_trip(1000, method, 0);
		check_round_trip(32768, method, 0);
		check_round_trip(200001, method, 0);
		check_round_trip(70000, method, 20);
	}
	if (run("ldconfig -p | grep -q libarchive.so.13"))
		check_round_trip(20001, 3, 0);
	else
		skip_part("cabinets compressed by LZX", "libarchive is not installed");
	/* Limits hold before memory is taken. */
	size_t packed, unpacked;
	uint8_t bytes[100] = { 0 }, *out, *cabinet = make_cabinet(bytes, sizeof(bytes), 1, 0, &packed);
	struct sp_error *error = sp_cabinet_unpack(cabinet, packed, 99, &out, &unpacked);
	assert_int_equal(error->code, SP_ERROR_LIMIT);
	sp_error_destroy(error);
	memset(cabinet + 44, 0xff, 2); /* the file is larger than any data here could be */
	error = sp_cabinet_unpack(cabinet, packed, SIZE_MAX, &out, &unpacked);
	assert_int_equal(error->code, SP_ERROR_FORMAT);
	sp_error_destroy(error);
	free(cabinet);
}

static void test_shared_cabinet(void **state)
{
	(void)state;
	struct spsym_file_info info;
	if (access(TEST_SHARED_DATA "/pdb/qipcap64.pd_", R_OK) != 0) {
		skip_part("a cabinet of others", "no shared data");
		return;
	}
	assert_null(spsym_identify_path(TEST_SHARED_DATA "/pdb/qipcap64.pd_", &info));
	assert_int_equal(info.kind, SPSYM_KIND_PDB);
	assert_string_equal(info.arch, "x86_64");
}

/* ---- Stores ---- */

static int start(void **state)
{
	if (make_folder(state) != 0)
		return -1;
	write_text("a.c", "static inline __attribute__((always_inline)) int square(int x) { return x * x; }\n"
	                  "__declspec(dllexport) int run(int n) { return square(n) + BUILD; }\n");
	for (unsigned i = 1; i <= 2; i++)
		must_run(
		    "mkdir b%u && cd b%u && clang --target=x86_64-pc-windows-msvc -g -gcodeview -O1 -DBUILD=%u -c "
		    "../a.c && "
		    "lld-link /dll /noentry /nodefaultlib /debug /pdbaltpath:a.pdb /out:a.dll a.o && rm -f a.o a.lib",
		    i, i, i);
	if (spsym_identify_path(in_folder("b1/a.dll"), &dll) || spsym_identify_path(in_folder("b1/a.pdb"), &pdb) ||
	    spsym_identify_path(in_folder("b2/a.pdb"), &other))
		return -1;
	function = hex_output("llvm-readobj --coff-exports b1/a.dll | sed -n 's/.*RVA: //p' | tail -1");
	must_run("mkdir served");
	bool served = start_fake_server();
	unsetenv("_NT_SYMBOL_PATH");
	unsetenv("_NT_ALT_SYMBOL_PATH");
	setenv("SP_CACHE_DIR", in_folder("sp-cache"), 1);
	return served ? 0 : -1;
}

static int clean(void **state)
{
	(void)state;
	return run("rm -rf store near far sp-cache; find served -mindepth 1 -not -name port -delete") ? 0 : -1;
}

/* What finding gives: 'd' = debug information, 's' = the binary's own symbols, '-' = nothing. With what was tried in
 * *ret_tried (freed by the caller) if that is wanted. */
static char find(const char *path, const char *servers, bool offline, char **ret_tried)
{
	spsym_context *context;
	spsym_module *module;
	struct spsym_options options = { .symbol_path = path, .windows_symbol_servers = servers, .offline = offline };
	struct spsym_identity identity = {
		.name = "a.dll", .debug_name = "a.pdb", .debug_id = pdb.debug_id, .code_id = dll.code_id
	};
	assert_null(spsym_context_create(&options, &context));
	spsym_error *error = spsym_module_find(context, &identity, &module);
	char answer = '-';
	if (ret_tried)
		assert_null(spsym_explain(context, &identity, ret_tried));
	if (!error) {
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &function, 1, &result));
		answer = spsym_module_info(module)->has_debug_info ? 'd' : 's';
		if (answer == 'd')
			assert_string_equal(result.locations[0].frames[result.locations[0].frame_count - 1].function,
			                    "run(int)");
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	spsym_error_destroy(error);
	spsym_context_destroy(context);
	return answer;
}

static const char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *text_of(const char *format, ...)
{
	static char texts[4][2000];
	static unsigned next;
	char *text = texts[next++ % 4];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(texts[0]), format, args);
	va_end(args);
	return text;
}

static void test_local_stores(void **state)
{
	(void)state;
	assert_int_equal(find(NULL, NULL, false, NULL), '-');
	/* A plain folder, a store, a store of two tiers, a packed file, a pointer. */
	must_run("mkdir -p store && cp b1/a.pdb store/");
	assert_int_equal(find(in_folder("store"), NULL, false, NULL), 'd');
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), '-');
	must_run("rm store/a.pdb && mkdir -p store/a.pdb/%s && cp b1/a.pdb store/a.pdb/%s/", pdb.debug_id,
	         pdb.debug_id);
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), 'd');
	assert_int_equal(find(text_of("%s;;%s", in_folder("nowhere"), in_folder("store")), NULL, false, NULL), 'd');
	setenv("_NT_SYMBOL_PATH", text_of("symsrv*symsrv.dll*%s", in_folder("store")), 1);
	assert_int_equal(find(NULL, NULL, false, NULL), 'd');
	assert_int_equal(find("", NULL, false, NULL), '-');
	unsetenv("_NT_SYMBOL_PATH");
	must_run("mkdir store/a.tmp && mv store/a.pdb/* store/a.tmp/ && rmdir store/a.pdb && mkdir store/a. && "
	         "mv store/a.tmp store/a./a.pdb && touch store/index2.txt");
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), 'd');
	must_run("rm -rf store && mkdir -p store/a.pdb/%s", pdb.debug_id);
	write_cabinet("b1/a.pdb", text_of("store/a.pdb/%s/a.pd_", pdb.debug_id), 1);
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), 'd');
	must_run("cd store/a.pdb/%s && rm a.pd_ && echo 'PATH:%s' >file.ptr", pdb.debug_id, in_folder("b1/a.pdb"));
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), 'd');
	must_run("cd store/a.pdb/%s && echo 'MSG: gone for good' >file.ptr", pdb.debug_id);
	char *tried;
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, &tried), '-');
	assert_non_null(strstr(tried, "gone for good"));
	free(tried);
}

static void test_refused(void **state)
{
	(void)state;
	must_run("mkdir -p store/a.pdb/%s && cp b2/a.pdb store/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	char *tried;
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, &tried), '-');
	assert_non_null(strstr(tried, pdb.debug_id));
	assert_non_null(strstr(tried, other.debug_id));
	free(tried);
	/* From a server: it does not get into the cache. */
	must_run("mkdir -p served/a.pdb/%s && cp b2/a.pdb served/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	assert_int_equal(find(text_of("srv*%s*http://127.0.0.1:%u/good", in_folder("near"), port), NULL, false, &tried),
	                 '-');
	assert_non_null(strstr(tried, other.debug_id));
	free(tried);
	assert_false(run("test -e near/a.pdb"));
	assert_true(run("test -z \"$(ls near)\""));
}

static void test_servers(void **state)
{
	(void)state;
	char chain[1500];
	snprintf(chain, sizeof(chain), "srv*%s*%s*http://127.0.0.1:%u/good", in_folder("near"), in_folder("far"), port);
	must_run("mkdir -p served/a.pdb/%s && cp b1/a.pdb served/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	assert_int_equal(find(chain, NULL, true, NULL), '-');
	assert_false(run("test -e served/requests"));
	assert_int_equal(find(chain, NULL, false, NULL), 'd');
	must_run("cmp b1/a.pdb near/a.pdb/%s/a.pdb && cmp b1/a.pdb far/a.pdb/%s/a.pdb && "
	         "test $(grep -c pdb served/requests) = 1 && ! ls near/download* 2>/dev/null",
	         pdb.debug_id, pdb.debug_id);
	/* From the stores: the nearer one is filled from the farther one, and no server is asked. */
	must_run("rm -r near served/requests");
	assert_int_equal(find(chain, NULL, true, NULL), 'd');
	assert_int_equal(find(chain, NULL, false, NULL), 'd');
	must_run("cmp b1/a.pdb near/a.pdb/%s/a.pdb && ! test -e served/requests", pdb.debug_id);
	/* Packed on the server, whole in the cache; the default cache. */
	must_run("rm -r served/a.pdb/%s/a.pdb", pdb.debug_id);
	write_cabinet("b1/a.pdb", text_of("served/a.pdb/%s/a.pd_", pdb.debug_id), 1);
	char *url = strdup(text_of("http://127.0.0.1:%u/good/", port));
	assert_int_equal(find("", url, false, NULL), 'd');
	must_run("cmp b1/a.pdb sp-cache/windows-symbols/a.pdb/%s/a.pdb", pdb.debug_id);
	free(url);
	/* Two tiers on the server. */
	must_run("rm -r sp-cache && cd served && mkdir x && mv a.pdb x/ && mv x a. && touch index2.txt");
	assert_int_equal(find("", text_of("http://127.0.0.1:%u/good", port), false, NULL), 'd');
	/* Trouble is told, and is not asked again at once. */
	char *tried;
	must_run("rm -r sp-cache served/requests");
	assert_int_equal(find("", text_of("http://127.0.0.1:%u/busy", port), false, &tried), '-');
	assert_non_null(strstr(tried, "it failed a moment ago"));
	free(tried);
	must_run("test $(wc -l <served/requests) = 1");
}

/* Every element that a path may have; Microsoft's server is asked only when a path or an option says so. */
static void test_syntax(void **state)
{
	(void)state;
	char url[100], *tried;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/good", port);
	must_run("mkdir -p served/a.pdb/%s && cp b1/a.pdb served/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	/* A cache for all that follows; a server alone, and with blanks around it. */
	assert_int_equal(find(text_of("cache*%s; %s ", in_folder("near"), url), NULL, false, NULL), 'd');
	must_run("cmp b1/a.pdb near/a.pdb/%s/a.pdb && ! test -e sp-cache/windows-symbols/a.pdb", pdb.debug_id);
	assert_int_equal(find(text_of("cache*%s", in_folder("near")), NULL, true, NULL), 'd');
	/* An empty store is the default cache. */
	assert_int_equal(find(text_of("SRV**%s", url), NULL, false, NULL), 'd');
	must_run("cmp b1/a.pdb sp-cache/windows-symbols/a.pdb/%s/a.pdb && rm -r sp-cache", pdb.debug_id);
	assert_int_equal(find(text_of("symsrv*symsrv.dll*%s*%s", in_folder("far"), url), NULL, false, NULL), 'd');
	must_run("cmp b1/a.pdb far/a.pdb/%s/a.pdb", pdb.debug_id);
	/* The second variable of the environment. */
	setenv("_NT_ALT_SYMBOL_PATH", text_of("srv*%s", in_folder("far")), 1);
	assert_int_equal(find(NULL, NULL, true, NULL), 'd');
	unsetenv("_NT_ALT_SYMBOL_PATH");
	static const char *const asking[][2] = { { "srv*", NULL }, { "srv**", NULL }, { "", "microsoft" } };
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(find(asking[i][0], asking[i][1], true, &tried), '-');
		assert_non_null(
		    strstr(tried, "https://msdl.microsoft.com/download/symbols: not asked, downloads are off"));
		free(tried);
	}
	static const char *const silent[] = { NULL, "srv*/nowhere", "cache*/nowhere" };
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(find(silent[i], NULL, true, &tried), '-');
		assert_null(strstr(tried, "microsoft"));
		free(tried);
	}
}

/* What a download told of itself. */
struct reports {
	atomic_uint running, most, count;
	uint64_t last, total;
};

static bool on_progress(void *context, const char *address, uint64_t done, uint64_t total)
{
	struct reports *r = context;
	unsigned now = atomic_fetch_add(&r->running, 1) + 1;
	if (now > atomic_load(&r->most))
		atomic_store(&r->most, now);
	atomic_fetch_add(&r->count, 1);
	if (strstr(address, "a.pdb")) {
		r->last = done;
		r->total = total;
	}
	usleep(2000);
	atomic_fetch_sub(&r->running, 1);
	return true;
}

static void *find_in_thread(void *context)
{
	struct spsym_identity identity = { .name = "a.dll", .debug_name = "a.pdb", .debug_id = pdb.debug_id };
	spsym_module *module;
	spsym_error *error = spsym_module_find(context, &identity, &module);
	if (error)
		return error;
	spsym_module_release(module);
	return NULL;
}

/* Threads that want files at once wait for each other, and the download is told while it runs. */
static void test_one_at_a_time(void **state)
{
	(void)state;
	struct reports reports = { 0 };
	pthread_t threads[4];
	spsym_context *context;
	struct spsym_options options = { .symbol_path = text_of("srv*%s*http://127.0.0.1:%u/good", in_folder("near"),
		                                                port),
		                         .progress = on_progress,
		                         .progress_context = &reports };
	must_run("mkdir -p served/a.pdb/%s && cp b1/a.pdb served/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	size_t size;
	free(read_bytes("b1/a.pdb", &size));
	assert_null(spsym_context_create(&options, &context));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, find_in_thread, context), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *error;
		pthread_join(threads[i], &error);
		assert_null(error);
	}
	spsym_context_destroy(context);
	assert_true(reports.count > 0);
	assert_int_equal(reports.most, 1);
	assert_int_equal(reports.last, size);
	assert_int_equal(reports.total, size);
	must_run("test $(grep -c pdb served/requests) = 1");
}

/* Without a PDB the binary comes by its code ID; its code is there for a module whose PDB came first. */
static void test_binaries(void **state)
{
	(void)state;
	must_run("mkdir -p store/a.dll/%s && cp b1/a.dll store/a.dll/%s/", dll.code_id, dll.code_id);
	assert_int_equal(find(text_of("srv*%s", in_folder("store")), NULL, false, NULL), 's');
	must_run("mkdir -p store/a.pdb/%s && cp b1/a.pdb store/a.pdb/%s/", pdb.debug_id, pdb.debug_id);
	spsym_context *context;
	spsym_module *module;
	struct spsym_options options = { .symbol_path = text_of("srv*%s", in_folder("store")) };
	struct spsym_identity identity = {
		.name = "a.dll", .debug_name = "a.pdb", .debug_id = pdb.debug_id, .code_id = dll.code_id
	};
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_find(context, &identity, &module));
	assert_true(spsym_module_info(module)->has_debug_info);
	uint8_t code[4];
	size_t size;
	spsym_error *error = spsym_code(module, function, code, sizeof(code), &size);
	if (error)
		fail_msg("%s", spsym_error_message(error));
	assert_int_equal(size, sizeof(code));
	spsym_module_release(module);
	/* Only what the trace of a system knows that has no debug IDs: the binary tells which PDB is its. */
	struct spsym_identity without = { .name = "a.dll", .code_id = dll.code_id };
	assert_null(spsym_module_find(context, &without, &module));
	assert_true(spsym_module_info(module)->has_debug_info);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cabinets),
		cmocka_unit_test(test_shared_cabinet),
		cmocka_unit_test_setup(test_local_stores, clean),
		cmocka_unit_test_setup(test_refused, clean),
		cmocka_unit_test_setup(test_servers, clean),
		cmocka_unit_test_setup(test_syntax, clean),
		cmocka_unit_test_setup(test_one_at_a_time, clean),
		cmocka_unit_test_setup(test_binaries, clean),
	};
	if (system("command -v clang lld-link llvm-readobj python3 >/dev/null 2>&1") != 0) {
		printf("SKIPPED: symbol stores: clang, lld, llvm or python3 is not installed\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, start, stop_fake_server);
}
