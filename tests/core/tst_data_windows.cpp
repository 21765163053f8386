// Windows of tokens and the three slices, with a tokenizer whose every byte is a token.
#include "core/base/result.h"
#include "core/data/text_data.h"

#include <QTest>
#include <cmath>
#include <random>
#include <set>

using namespace linnet::core;

namespace {

class ByteTokenizer : public Tokenizer {
public:
    std::vector<TokenId> encode(std::string_view utf8, bool addSpecial) const override {
        ++calls;
        std::vector<TokenId> ids(utf8.begin(), utf8.end());
        if (addSpecial)
            ids.insert(ids.begin(), 1000);
        return ids;
    }
    std::string decode(const std::vector<TokenId>& ids) const override { return {ids.begin(), ids.end()}; }
    std::string tokenText(TokenId id) const override { return std::string(1, static_cast<char>(id)); }
    std::int64_t vocabSize() const override { return 1001; }
    std::string type() const override { return "bytes"; }
    bool isEndOfText(TokenId) const override { return false; }
    std::string applyChatTemplate(const std::vector<ChatMessage>&, bool) const override { return {}; }
    std::string chatTemplate() const override { return {}; }
    std::string tokenizerJson() const override { return {}; }
    std::string tokenizerConfigJson() const override { return {}; }
    mutable int calls = 0;
};

// Window i holds the number i only.
TokenWindows numbered(std::int64_t sequences, std::int64_t seqLen) {
    TokenWindows windows{{}, sequences, seqLen};
    for (std::int64_t i = 0; i < sequences * seqLen; ++i)
        windows.ids.push_back(static_cast<TokenId>(i / seqLen));
    return windows;
}

std::vector<std::int64_t> numbersIn(const TokenWindows& windows) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < windows.sequences; ++i)
        numbers.push_back(windows.ids[static_cast<std::size_t>(i * windows.seqLen)]);
    return numbers;
}

} // namespace

class DataWindows : public QObject {
    Q_OBJECT
private slots:
    void windows_data();
    void windows();
    void tooShort_data();
    void tooShort();
    void hashAndRows();
    void slices_data();
    void trainingKeepsItsDistance();
    void slices();
    void smallCounts();
    void tooFewWindows();
    void handCase();
};

void DataWindows::windows_data() {
    QTest::addColumn<QStringList>("documents");
    QTest::addColumn<int>("seqLen");
    QTest::addColumn<int>("maxTokens");
    QTest::addColumn<QString>("kept");
    QTest::addColumn<int>("sequences");
    QTest::newRow("tail dropped") << QStringList{"abcdefgh"} << 3 << 0 << "abcdef" << 2;
    QTest::newRow("exact") << QStringList{"abcdef"} << 3 << 0 << "abcdef" << 2;
    QTest::newRow("blank line between") << QStringList{"ab", "cd", "e"} << 3 << 0 << "ab\n\ncd\n\ne" << 3;
    QTest::newRow("first tokens only") << QStringList{"abcdefghij"} << 3 << 7 << "abcdef" << 2;
    QTest::newRow("more asked than there is") << QStringList{"abcdefghij"} << 3 << 1000 << "abcdefghi" << 3;
    QTest::newRow("one window") << QStringList{"abc"} << 3 << 3 << "abc" << 1;
}

void DataWindows::windows() {
    QFETCH(QStringList, documents);
    QFETCH(int, seqLen);
    QFETCH(int, maxTokens);
    QFETCH(QString, kept);
    QFETCH(int, sequences);
    std::vector<std::string> list;
    for (const auto& document : documents)
        list.push_back(document.toStdString());
    const ByteTokenizer tokenizer;
    const auto found = tokenWindows(tokenizer, list, seqLen, maxTokens);
    QCOMPARE(tokenizer.calls, 1);
    QCOMPARE(found.sequences, sequences);
    QCOMPARE(found.seqLen, seqLen);
    QCOMPARE(found.tokens(), sequences * seqLen);
    QCOMPARE(QString::fromStdString(tokenizer.decode(found.ids)), kept);
}

void DataWindows::tooShort_data() {
    QTest::addColumn<int>("seqLen");
    QTest::addColumn<int>("maxTokens");
    QTest::addColumn<QString>("named");
    QTest::newRow("text") << 6 << 0 << "the text has 5 tokens, one window needs 6";
    QTest::newRow("tokens") << 4 << 3 << "tokens: found 3";
    QTest::newRow("seq-len") << 0 << 0 << "seq-len: found 0";
}

void DataWindows::tooShort() {
    QFETCH(int, seqLen);
    QFETCH(int, maxTokens);
    QFETCH(QString, named);
    const auto result = guarded([&] { return tokenWindows(ByteTokenizer(), {"abcde"}, seqLen, maxTokens); });
    QVERIFY(!result);
    QVERIFY2(result.error().message.find(named.toStdString()) != std::string::npos, result.error().message.c_str());
}

void DataWindows::hashAndRows() {
    const auto windows = numbered(6, 4);
    QCOMPARE(numbersIn(windows.rows({5, 0, 2})), (std::vector<std::int64_t>{5, 0, 2}));
    QCOMPARE(windows.rows({5, 0, 2}).ids.size(), std::size_t{12});
    QCOMPARE(windows.rows({}).sequences, 0);
    QVERIFY(!guarded([&] { return windows.rows({6}); }));
    auto reshaped = windows, changed = windows;
    reshaped.sequences = 4;
    reshaped.seqLen = 6;
    changed.ids[3] ^= 1;
    QCOMPARE(numbered(6, 4).hash(), windows.hash());
    QVERIFY(reshaped.hash() != windows.hash());
    QVERIFY(changed.hash() != windows.hash());
}

void DataWindows::slices_data() {
    QTest::addColumn<qint64>("windows");
    QTest::addColumn<qint64>("seqLen");
    QTest::addColumn<QList<qint64>>("counts"); // windows wanted of each slice
    std::mt19937_64 random(7);
    for (int i = 0; i < 60; ++i) {
        const auto upTo = [&](qint64 most) { return static_cast<qint64>(random() % static_cast<std::uint64_t>(most + 1)); };
        const qint64 a = 1 + upTo(200), b = upTo(40), c = upTo(80), spare = i % 3 == 0 ? 0 : upTo(1000);
        QTest::addRow("%d", i) << a + b + c + spare << 1 + upTo(7) << QList<qint64>{a, b, c};
    }
}

void DataWindows::slices() {
    QFETCH(qint64, windows);
    QFETCH(qint64, seqLen);
    QFETCH(QList<qint64>, counts);
    const auto all = numbered(windows, seqLen);
    // seqLen - 1 tokens more than whole windows: rounded down
    const auto tokens = [&](int i) { return counts[i] == 0 ? 0 : counts[i] * seqLen + seqLen - 1; };
    const auto slices = splitSlices(all, tokens(0), tokens(1), tokens(2));
    const std::vector<std::int64_t> found[] = {numbersIn(slices.calibration), numbersIn(slices.selection),
                                               numbersIn(slices.evaluation)};
    const qint64 total = counts[0] + counts[1] + counts[2];
    std::set<std::int64_t> used;
    for (int i = 0; i < 3; ++i) {
        QCOMPARE(static_cast<qint64>(found[i].size()), counts[i]);
        QVERIFY(std::is_sorted(found[i].begin(), found[i].end()));
        used.insert(found[i].begin(), found[i].end());
    }
    QCOMPARE(static_cast<qint64>(used.size()), total); // disjoint
    // Spread over the whole text: the k-th used window is the one at k / total of it.
    qint64 index = 0;
    for (const auto window : used)
        QCOMPARE(window, index++ * windows / total);
    // In proportion: in every prefix each slice has its share, to within two windows.
    for (int i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < found[i].size(); ++k) {
            const auto position = std::distance(used.begin(), used.find(found[i][k])) + 1;
            const double share = static_cast<double>(counts[i]) * static_cast<double>(position) / static_cast<double>(total);
            QVERIFY2(std::abs(static_cast<double>(k + 1) - share) < 2,
                     qPrintable(QString("slice %1, window %2").arg(i).arg(k)));
        }
    QCOMPARE(splitSlices(all, tokens(0), tokens(1), tokens(2)).calibration.hash(), slices.calibration.hash());
}

void DataWindows::smallCounts() {
    const auto slices = splitSlices(numbered(10, 100), 250, 1, 0); // 2 windows; at least one where asked for; none
    QCOMPARE(slices.calibration.sequences, 2);
    QCOMPARE(slices.selection.sequences, 1);
    QCOMPARE(slices.evaluation.sequences, 0);
    QVERIFY(!guarded([] { return splitSlices(numbered(10, 100), -1, 0, 0); }));
}

void DataWindows::tooFewWindows() {
    const auto result = guarded([] { return splitSlices(numbered(5, 8), 32, 8, 8); });
    QVERIFY(!result);
    const auto& message = result.error().message;
    QVERIFY2(message.find("has 5 windows") != std::string::npos && message.find("4 + 1 + 1 = 6") != std::string::npos,
             message.c_str());
}

void DataWindows::handCase() {
    // 4 + 2 + 2 of 8: lacks after one: 4, 2, 2 -> c; then 0, 4, 4 -> s; then 4, -2, 6 -> e; then 8, 0, 0 -> c; and again.
    const auto slices = splitSlices(numbered(8, 1), 4, 2, 2);
    QCOMPARE(numbersIn(slices.calibration), (std::vector<std::int64_t>{0, 3, 4, 7}));
    QCOMPARE(numbersIn(slices.selection), (std::vector<std::int64_t>{1, 5}));
    QCOMPARE(numbersIn(slices.evaluation), (std::vector<std::int64_t>{2, 6}));
}

// What is trained on is no neighbour of what is measured on where the text is long enough; nothing is used twice.
void DataWindows::trainingKeepsItsDistance() {
    const auto all = numbered(4000, 64);
    const auto slices = splitSlices(all, 64 * 40, 64 * 3, 64 * 5);
    const auto training = numbersIn(remainingWindows(all, slices, 0));
    QVERIFY(training.size() > 2000);
    for (const auto* slice : {&slices.selection, &slices.evaluation})
        for (const auto measured : numbersIn(*slice))
            for (const auto trained : training)
                QVERIFY(std::abs(measured - trained) > 100); // 6400 tokens
    for (const auto window : numbersIn(slices.calibration))
        QVERIFY(std::ranges::find(training, window) == training.end());
    QCOMPARE(numbersIn(remainingWindows(all, slices, 64 * 7)).size(), std::size_t(7));
    const auto shortText = numbered(12, 64); // nothing to spare: disjoint is all that can be had
    const auto few = splitSlices(shortText, 64 * 4, 64, 64);
    QCOMPARE(remainingWindows(shortText, few, 0).sequences, std::int64_t(6));
    QVERIFY(!guarded([&] { return remainingWindows(shortText, splitSlices(shortText, 64 * 10, 64, 64), 0); }));
}

QTEST_APPLESS_MAIN(DataWindows)
#include "tst_data_windows.moc"
