// A workload to look at in a profiler: the trip times of a made-up city.
//
// It writes the city's road map as JSON, parses that text, builds a graph, finds shortest paths from many places on two
// threads, sorts the results and draws a map of how long it takes from the town hall to everywhere. Each phase is a
// function of its own under main() or under the worker threads, and most of the time is spent in small functions that
// the compiler inlines: the call tree with inlined frames shows them, the symbol table alone does not.
//
// usage: citymap [ROUNDS [MAP.pgm]]   five rounds take a few seconds

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace
{

constexpr unsigned city_width = 220;
constexpr unsigned city_height = 220;
constexpr unsigned trips = 28;
constexpr unsigned worker_count = 2;

// ---- Numbers that are the same on every machine ----

class Random
{
      public:
	explicit Random(uint64_t seed) : state(seed)
	{
	}

	uint32_t next(uint32_t bound)
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		return static_cast<uint32_t>(((state >> 32) * bound) >> 32);
	}

      private:
	uint64_t state;
};

// ---- The map as text ----

std::string write_city(uint64_t seed)
{
	static const char *const kinds[] = { "lane", "street", "avenue", "motorway" };
	Random random(seed);
	std::string text = "{\"width\": " + std::to_string(city_width) +
	                   ", \"height\": " + std::to_string(city_height) + ", \"roads\": [\n";
	auto road = [&](unsigned from, unsigned to) {
		const unsigned kind = random.next(100) < 90 ? random.next(2) : 2 + random.next(2);
		text += "  {\"from\": " + std::to_string(from) + ", \"to\": " + std::to_string(to) + ", \"kind\": \"" +
		        kinds[kind] + "\", \"metres\": " + std::to_string(80 + random.next(120)) + "." +
		        std::to_string(random.next(10)) + "},\n";
	};
	for (unsigned y = 0; y < city_height; y++) {
		for (unsigned x = 0; x < city_width; x++) {
			const unsigned here = y * city_width + x;
			if (x + 1 < city_width)
				road(here, here + 1);
			if (y + 1 < city_height)
				road(here, here + city_width);
		}
	}
	text.resize(text.size() - 2);
	return text + "\n]}\n";
}

// ---- A JSON parser for what a map needs ----

struct Value {
	enum class Kind { number, string, array, object } kind = Kind::number;
	double number = 0;
	std::string string;
	std::vector<Value> array;
	std::map<std::string, Value> object;

	const Value &at(const char *key) const
	{
		return object.at(key);
	}
};

class Parser
{
      public:
	explicit Parser(const std::string &text) : position(text.data()), end(text.data() + text.size())
	{
	}

	Value parse()
	{
		Value value = parse_value();
		skip_space();
		if (position != end)
			throw std::runtime_error("text after the map");
		return value;
	}

      private:
	const char *position;
	const char *end;

	void skip_space()
	{
		while (position != end && (*position == ' ' || *position == '\n'))
			position++;
	}

	char peek()
	{
		skip_space();
		if (position == end)
			throw std::runtime_error("the map ends too early");
		return *position;
	}

	bool take(char wanted)
	{
		if (peek() != wanted)
			return false;
		position++;
		return true;
	}

	void expect(char wanted)
	{
		if (!take(wanted))
			throw std::runtime_error(std::string("expected ") + wanted);
	}

	std::string parse_string()
	{
		expect('"');
		const char *start = position;
		while (position != end && *position != '"')
			position++;
		std::string result(start, position);
		expect('"');
		return result;
	}

	double parse_number()
	{
		double result = 0;
		while (position != end && *position >= '0' && *position <= '9')
			result = result * 10 + (*position++ - '0');
		if (position != end && *position == '.') {
			position++;
			double scale = 1;
			while (position != end && *position >= '0' && *position <= '9') {
				scale /= 10;
				result += scale * (*position++ - '0');
			}
		}
		return result;
	}

	// The map is nested three deep; this parser reads nothing else. NOLINTBEGIN(misc-no-recursion)
	Value parse_array()
	{
		Value value;
		value.kind = Value::Kind::array;
		expect('[');
		while (!take(']')) {
			value.array.push_back(parse_value());
			take(',');
		}
		return value;
	}

	Value parse_object()
	{
		Value value;
		value.kind = Value::Kind::object;
		expect('{');
		while (!take('}')) {
			std::string key = parse_string();
			expect(':');
			value.object.emplace(std::move(key), parse_value());
			take(',');
		}
		return value;
	}

	Value parse_value()
	{
		Value value;
		switch (peek()) {
		case '{':
			return parse_object();
		case '[':
			return parse_array();
		case '"':
			value.kind = Value::Kind::string;
			value.string = parse_string();
			return value;
		default:
			value.number = parse_number();
			return value;
		}
	}
	// NOLINTEND(misc-no-recursion)
};

// ---- The graph ----

struct Edge {
	uint32_t to;
	float seconds;
};

class Graph
{
      public:
	explicit Graph(const Value &city)
	{
		const auto &roads = city.at("roads").array;
		places.resize(static_cast<size_t>(city.at("width").number * city.at("height").number));
		for (const Value &road : roads) {
			const auto from = static_cast<uint32_t>(road.at("from").number);
			const auto to = static_cast<uint32_t>(road.at("to").number);
			const auto seconds = static_cast<float>(road.at("metres").number /
			                                        speed(road.at("kind").string));
			places.at(from).push_back({ to, seconds });
			places.at(to).push_back({ from, seconds });
		}
	}

	size_t size() const
	{
		return places.size();
	}

	const std::vector<Edge> &roads_of(uint32_t place) const
	{
		return places[place];
	}

      private:
	std::vector<std::vector<Edge>> places;

	static double speed(const std::string &kind)
	{
		if (kind == "motorway")
			return 30;
		if (kind == "avenue")
			return 16;
		return kind == "street" ? 10 : 6;
	}
};

// Dijkstra's algorithm: seconds from one place to every other.
std::vector<float> trip_times(const Graph &graph, uint32_t start)
{
	using Stop = std::pair<float, uint32_t>;
	std::vector<float> best(graph.size(), INFINITY);
	std::priority_queue<Stop, std::vector<Stop>, std::greater<Stop>> queue;
	best[start] = 0;
	queue.push({ 0, start });
	while (!queue.empty()) {
		const auto [seconds, place] = queue.top();
		queue.pop();
		if (seconds > best[place])
			continue;
		for (const Edge &edge : graph.roads_of(place)) {
			const float through = seconds + edge.seconds;
			if (through < best[edge.to]) {
				best[edge.to] = through;
				queue.push({ through, edge.to });
			}
		}
	}
	return best;
}

// Median trip time from each of many places, shared out to threads.
std::vector<float> median_trips(const Graph &graph, uint64_t seed)
{
	std::vector<float> medians(trips);
	std::atomic<unsigned> next{ 0 };
	auto work = [&] {
		for (unsigned trip = next++; trip < trips; trip = next++) {
			Random random(seed + trip);
			auto times = trip_times(graph, random.next(static_cast<uint32_t>(graph.size())));
			std::sort(times.begin(), times.end());
			medians[trip] = times[times.size() / 2];
		}
	};
	std::vector<std::thread> workers;
	for (unsigned i = 0; i < worker_count; i++)
		workers.emplace_back(work);
	for (auto &worker : workers)
		worker.join();
	return medians;
}

// ---- The picture ----

// A smooth grey: the mean of the trip times around a point, weighted by distance.
float smoothed(const std::vector<float> &times, unsigned x, unsigned y)
{
	constexpr int radius = 5;
	float sum = 0, weights = 0;
	for (int dy = -radius; dy <= radius; dy++) {
		for (int dx = -radius; dx <= radius; dx++) {
			const int px = std::clamp(static_cast<int>(x) + dx, 0, static_cast<int>(city_width) - 1);
			const int py = std::clamp(static_cast<int>(y) + dy, 0, static_cast<int>(city_height) - 1);
			const float weight = std::exp(-static_cast<float>(dx * dx + dy * dy) / 9);
			sum += weight * times[static_cast<unsigned>(py) * city_width + static_cast<unsigned>(px)];
			weights += weight;
		}
	}
	return sum / weights;
}

std::vector<uint8_t> draw(const std::vector<float> &times)
{
	const float longest = *std::max_element(times.begin(), times.end());
	std::vector<uint8_t> picture(times.size());
	for (unsigned y = 0; y < city_height; y++)
		for (unsigned x = 0; x < city_width; x++)
			picture[y * city_width + x] = static_cast<uint8_t>(255 - 255 * smoothed(times, x, y) / longest);
	return picture;
}

void save(const std::vector<uint8_t> &picture, const char *path)
{
	FILE *file = std::fopen(path, "wb");
	if (!file)
		throw std::runtime_error(std::string("cannot write ") + path);
	std::fprintf(file, "P5 %u %u 255\n", city_width, city_height);
	std::fwrite(picture.data(), 1, picture.size(), file);
	std::fclose(file);
}

} // namespace

int main(int argc, char **argv)
try {
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
	std::vector<uint8_t> picture;
	for (int round = 0; round < rounds; round++) {
		const uint64_t seed = 2026 + static_cast<uint64_t>(round);
		const std::string text = write_city(seed);
		const Graph graph(Parser(text).parse());
		const auto medians = median_trips(graph, seed);
		picture = draw(trip_times(graph, city_height / 2 * city_width + city_width / 2));
		std::printf("city %d: %zu places, a typical trip takes %.0f minutes\n", round + 1, graph.size(),
		            static_cast<double>(*std::max_element(medians.begin(), medians.end())) / 60);
	}
	if (argc > 2)
		save(picture, argv[2]);
	return 0;
} catch (const std::exception &error) {
	std::fprintf(stderr, "citymap: %s\n", error.what());
	return 1;
}
